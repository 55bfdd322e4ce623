"""Texts of healthy programs: nothing in them may be told as a warning or an error."""

from __future__ import annotations

import pytest

from gpudoctor.engine.diagnose import diagnose
from gpudoctor.engine.unexplained import unexplained
from gpudoctor.report import Finding, Severity
from tests.rules.reading import bundled, read_text

HARMLESS = {
    "tensorflow starts on a GPU": """\
2024-07-06 15:47:43.180939: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
2024-07-06 15:47:43.181095: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:607] Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when one has already been registered
2024-07-06 15:47:43.345276: E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:1515] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered
2024-07-06 15:47:43.613629: I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations.
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate compiler flags.
2024-07-06 15:47:44.337631: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT
2024-07-06 15:47:45.496341: I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc:901] successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node, so returning NUMA node zero.
2024-07-06 15:47:45.996341: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1929] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 14785 MB memory:  -> device: 0, name: Tesla T4, pci bus id: 0000:00:04.0, compute capability: 7.5
Epoch 1/5
1875/1875 [==============================] - 6s 2ms/step - loss: 0.2946 - accuracy: 0.9142
""",
    "jax starts on a GPU": """\
INFO:jax._src.xla_bridge:Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform with name: "rocm". Available platform names are: CUDA
INFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory
2024-02-15 14:18:20.201828: W external/xla/xla/service/gpu/nvptx_compiler.cc:744] The NVIDIA driver's CUDA version is 12.2 which is older than the ptxas CUDA version (12.3.107). Because the driver is older than the ptxas version, XLA is disabling parallel compilation, which may slow down compilation. You should update your NVIDIA driver or use the NVIDIA-provided CUDA forward compatibility packages.
[CudaDevice(id=0)]
""",
    "pytorch training": """\
Using device: cuda:0 (NVIDIA A100-SXM4-40GB)
LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1,2,3]
GPU available: True (cuda), used: True
TPU available: False, using: 0 TPU cores
HPU available: False, using: 0 HPUs
Epoch 0:  12%|#2        | 118/981 [00:39<04:48,  2.99it/s, loss=2.31, v_num=3]
{'loss': 1.8243, 'grad_norm': 0.7812, 'learning_rate': 1.9e-05, 'epoch': 0.42}
UserWarning: None of the inputs have requires_grad=True. Gradients will be None
Saving model checkpoint to ./out/checkpoint-700
Training completed. Do not forget to share your model on huggingface.co/models =)
""",
    "pip install of torch": """\
Collecting torch==2.6.0
  Using cached https://download.pytorch.org/whl/cu126/torch-2.6.0%2Bcu126-cp311-cp311-manylinux_2_28_x86_64.whl (768.4 MB)
Collecting nvidia-cuda-nvrtc-cu12==12.6.77 (from torch==2.6.0)
Collecting nvidia-cudnn-cu12==9.5.1.17 (from torch==2.6.0)
Collecting nvidia-nccl-cu12==2.21.5 (from torch==2.6.0)
Collecting triton==3.2.0 (from torch==2.6.0)
Installing collected packages: triton, nvidia-nccl-cu12, nvidia-cudnn-cu12, nvidia-cuda-nvrtc-cu12, torch
Successfully installed nvidia-cuda-nvrtc-cu12-12.6.77 nvidia-cudnn-cu12-9.5.1.17 nvidia-nccl-cu12-2.21.5 torch-2.6.0+cu126 triton-3.2.0
""",
    "pip list of a working environment": """\
$ pip list
Package                  Version
------------------------ ------------
accelerate               1.2.1
bitsandbytes             0.45.0
flash-attn               2.7.3
nvidia-cublas-cu12       12.4.5.8
nvidia-cuda-runtime-cu12 12.4.127
nvidia-cudnn-cu12        9.1.0.70
nvidia-nccl-cu12         2.21.5
nvidia-nvjitlink-cu12    12.4.127
onnxruntime-gpu          1.20.1
torch                    2.5.1+cu124
torchvision              0.20.1+cu124
triton                   3.1.0
vllm                     0.6.6
xformers                 0.0.28.post3
""",
    "torch is asked in a shell": """\
>>> import torch
>>> torch.__version__, torch.version.cuda
('2.5.1+cu124', '12.4')
>>> torch.cuda.is_available()
True
>>> torch.cuda.device_count()
4
>>> torch.cuda.get_arch_list()
['sm_50', 'sm_60', 'sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90']
""",
    "vllm starts": """\
INFO 01-20 09:12:01 __init__.py:190] Automatically detected platform cuda.
INFO 01-20 09:12:08 llm_engine.py:234] Initializing an LLM engine (v0.7.0) with config: model='Qwen/Qwen2.5-7B-Instruct', tensor_parallel_size=1, enforce_eager=False
INFO 01-20 09:12:11 cuda.py:235] Using Flash Attention backend.
INFO 01-20 09:12:30 worker.py:266] the current vLLM instance can use total_gpu_memory (79.10GiB) x gpu_memory_utilization (0.90) = 71.19GiB
INFO 01-20 09:12:31 executor_base.py:108] # CUDA blocks: 58101, # CPU blocks: 4681
INFO 01-20 09:12:35 model_runner.py:1434] Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static. To run the model in eager mode, set 'enforce_eager=True' or use '--enforce-eager' in the CLI.
Capturing CUDA graph shapes: 100%|##########| 35/35 [00:11<00:00,  3.11it/s]
INFO:     Application startup complete.
INFO:     127.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK
""",
    "vllm on a Turing card": """\
INFO 11-02 10:01:11 selector.py:217] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.
INFO 11-02 10:01:11 selector.py:129] Using XFormers backend.
WARNING 11-02 10:01:02 config.py:1674] Casting torch.bfloat16 to torch.float16.
INFO:     Application startup complete.
""",
    "ollama uses the GPU": """\
time=2025-04-30T02:46:26.042+08:00 level=INFO source=types.go:130 msg="inference compute" id=GPU-a91a72c4-6733-ae33-c532-f159bfc07477 library=cuda variant=v12 compute=8.9 driver=12.5 name="NVIDIA GeForce RTX 4090" total="23.6 GiB" available="21.8 GiB"
llm_load_tensors: offloading 32 repeating layers to GPU
llm_load_tensors: offloaded 33/33 layers to GPU
ggml_cuda_init: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes
""",
    "a web interface without Triton": """\
A matching Triton is not available, some optimizations will not be enabled.
Error caught was: No module named 'triton'
Applying attention optimization: xformers... done.
Startup time: 11.1s (prepare environment: 2.9s, import torch: 3.7s)
""",
    "a run that was resumed": """\
Resuming from checkpoint /ckpt/step-1200; optimizer state restored
NCCL version 2.21.5+cuda12.4
[rank0]:[W312] ProcessGroupNCCL.cpp:4115] Using GPU 0 to perform barrier as devices used by this process are currently unknown.
step 1210 loss 2.118 grad_norm 0.71 tokens/s 41230 mfu 0.41
cuda runtime version: 12.4, driver version: 550.90.07, status 0
""",
    "an extension is compiled": """\
Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...
Detected CUDA files, patching ldflags
Emitting ninja build file /root/.cache/torch_extensions/py310_cu121/fused_adam/build.ninja...
[1/3] /usr/local/cuda/bin/nvcc -DTORCH_EXTENSION_NAME=fused_adam -L/usr/local/cuda/lib64/stubs -gencode arch=compute_80,code=sm_80 -c multi_tensor_adam.cu -o multi_tensor_adam.cuda.o
ptxas info    : 0 bytes gmem
ptxas info    : Used 40 registers, 580 bytes cmem[0]
Loading extension module fused_adam...
Time to load fused_adam op: 33.06 seconds
""",
    "bitsandbytes of an old release loads well": """\
bin /opt/conda/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda117.so
CUDA SETUP: CUDA runtime path found: /usr/local/cuda/lib64/libcudart.so
CUDA SETUP: Highest compute capability among GPUs detected: 8.0
CUDA SETUP: Detected CUDA version 117
CUDA SETUP: Loading binary /opt/conda/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda117.so...
""",
    "onnxruntime session": """\
>>> ort.get_available_providers()
['TensorrtExecutionProvider', 'CUDAExecutionProvider', 'CPUExecutionProvider']
2024-03-01 10:00:00.123 [W:onnxruntime:, session_state.cc:1166 VerifyEachNodeIsAssignedToAnEp] Some nodes were not assigned to the preferred execution providers which may or may not have an negative impact on performance.
""",
    "healthy nvidia-smi": """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   36C    P0            150W /  700W |   56882MiB /  81559MiB |     97%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
""",
    "another program's words": """\
main.c:12: main: Assertion `x > 0' failed.
glxinfo: no GPU found on card1, using software rendering
cp: cannot create hard link: Operation not supported
kill: (3112) - Invalid argument
ModuleNotFoundError: No module named 'torch'
ERROR: 500 Internal Server Error
HTTP error code 400, retrying
process exited with code 100
""",
    "a training script": """\
import os
os.environ['CUDA_VISIBLE_DEVICES'] = '0'
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
os.environ['CUDA_LAUNCH_BLOCKING'] = '1'
import torch
assert torch.cuda.is_available(), "no GPU"
model = model.to('cuda:0')
""",
    "mps at work": """\
[2026-04-28 18:20:41.704 Control  4420] Starting control daemon using socket /tmp/nvidia-mps/control
[2026-04-28 18:20:41.704 Control  4420] To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps
[2026-04-28 18:20:41.985 Server  4428] Server has started
[2026-04-28 18:20:41.986 Server  4428] Received new client request
[2026-04-28 18:20:41.986 Server  4428] Client {4267, 0} connected
""",
}


def _loud(findings: list[Finding]) -> list[str]:
    return [
        f"{finding.severity}: {finding.rule}"
        for finding in findings
        if finding.severity != Severity.INFO or _loud(finding.consequences)
    ]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HARMLESS.items()])
def test_healthy_text_is_told_no_trouble(text: str) -> None:
    facts, documents = read_text(text)
    findings = diagnose(bundled(), facts, documents, guessing=True).findings
    assert _loud(findings) == []
    assert unexplained(documents) or not any(finding.guess for finding in findings)
