#include "runtime.h"
int64_t example(const engram_runtime *r) { return r->vector; }
