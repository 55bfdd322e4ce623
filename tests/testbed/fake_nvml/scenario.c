#define _GNU_SOURCE
#include "scenario.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINES = 4096, MAX_KEY = 160 };

typedef struct {
    char *key;
    char *value;
} Line;

static Line lines[MAX_LINES];
static int line_count = -1; /* -1: not read yet */

static void add_line(char *text) {
    char *equals = strchr(text, '=');
    if (*text == '#' || equals == NULL || line_count >= MAX_LINES) return;
    *equals = '\0';
    lines[line_count].key = text;
    lines[line_count].value = equals + 1;
    line_count++;
}

static void read_scenario(const char *variable) {
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "r") : NULL;
    char *text = NULL;
    size_t size = 0;
    line_count = 0;
    if (file == NULL) return;
    if (getdelim(&text, &size, '\0', file) > 0) {
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) add_line(line);
    }
    fclose(file); /* the text stays: the lines point into it */
}

const char *scenario_text(const char *variable, const char *key) {
    if (line_count < 0) read_scenario(variable);
    for (int i = line_count - 1; i >= 0; i--) {
        if (strcmp(lines[i].key, key) == 0) return lines[i].value;
    }
    return NULL;
}

double scenario_number(const char *variable, const char *key, double fallback) {
    const char *text = scenario_text(variable, key);
    return text ? strtod(text, NULL) : fallback;
}

/* The value of PREFIX WORD.FUNCTION, also when the scenario leaves out the function's _v2 suffix. */
static double behaviour_number(const char *variable, const char *prefix, const char *word, const char *function) {
    char key[MAX_KEY];
    const char *suffix = strstr(function, "_v");
    int stem = suffix ? (int)(suffix - function) : (int)strlen(function);
    snprintf(key, sizeof key, "%s%s.%s", prefix, word, function);
    if (scenario_text(variable, key)) return scenario_number(variable, key, 0);
    snprintf(key, sizeof key, "%s%s.%.*s", prefix, word, stem, function);
    return scenario_number(variable, key, 0);
}

static void sleep_forever(void) {
    sigset_t all;
    sigfillset(&all); /* KILL still ends the process: a test must be able to clean up */
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (;;) pause();
}

int scenario_behaviour(const char *variable, const char *prefix, const char *function) {
    double delay = behaviour_number(variable, prefix, "delay", function);
    if (behaviour_number(variable, prefix, "wedge", function)) sleep_forever();
    if (behaviour_number(variable, prefix, "crash", function)) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (delay > 0) usleep((useconds_t)(delay * 1000));
    return (int)behaviour_number(variable, prefix, "err", function);
}

void scenario_trace(const char *variable, const char *function, int code) {
    char name[MAX_KEY];
    snprintf(name, sizeof name, "%s_TRACE", variable);
    if (getenv(name)) fprintf(stderr, "[%s] %s -> %d\n", variable, function, code);
}
