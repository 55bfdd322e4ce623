/* A scenario is a text file of key=value lines, one fact a line; '#' starts a comment line.
 * Values are text. "na" stands for a fact that the hardware or driver does not report. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

/* The value of KEY in the file that environment variable VARIABLE names, or NULL. The last line of a key wins. */
const char *scenario_text(const char *variable, const char *key);

/* The value of KEY as a number (decimal, fraction or 0x...), or FALLBACK. */
double scenario_number(const char *variable, const char *key, double fallback);

/* Does what a line behaviour.FUNCTION=... asks for, before FUNCTION answers:
 *   wedge.F=1   never returns, and TERM is blocked: as a driver call in uninterruptible sleep
 *   crash.F=1   kills the process with SIGSEGV
 *   delay.F=N   sleeps N milliseconds
 * Returns the code of err.F=N, or 0. F is the function's name, with or without its _v2 suffix. */
int scenario_behaviour(const char *variable, const char *prefix, const char *function);

/* Prints one line to stderr when environment variable VARIABLE_TRACE is set. */
void scenario_trace(const char *variable, const char *function, int code);

#endif
