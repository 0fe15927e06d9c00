/* A pool of threads that sleep while there is nothing to do. Included once, in the runtime library.
 *
 *     share(count, threads, work, context)   calls work(context, i) once for every i < count, on at most `threads`
 *
 * threads, the caller's own among them. Which thread takes which i is left to chance, so work must write to places of
 * its own, and what it computes there may depend on i alone: then the result has the same bits with any number of
 * threads. A caller that finds the pool taken does all of its work itself. Workers compute with the caller's floating
 * point settings (flush of denormals). After fork() the child starts with an empty pool.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "runtime.h"

#define MOST_WORKERS 255

static struct {
  pthread_mutex_t owner; /* held by the caller whose work is being shared */
  pthread_mutex_t lock;  /* of everything below but `next` and `failed` */
  pthread_cond_t wake, idle;
  int workers, places, busy; /* threads there are; that may still join this work; that are at it */
  uint64_t round;            /* number of this work: a worker joins each at most once */
  work_function *work;
  const void *context;
  int64_t count;
  fenv_t settings;
  atomic_int_fast64_t next;
  atomic_int failed;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER};

static void take_part(void) {
  for (int64_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.count;)
    atomic_fetch_or(&pool.failed, pool.work(pool.context, i));
}

static void *worker(void *unused) {
  (void)unused;
  uint64_t joined = 0;
  pthread_mutex_lock(&pool.lock);
  for (;;) {
    while (!pool.places || joined == pool.round) pthread_cond_wait(&pool.wake, &pool.lock);
    joined = pool.round, pool.places--, pool.busy++;
    pthread_mutex_unlock(&pool.lock);
    fesetenv(&pool.settings);
    take_part();
    pthread_mutex_lock(&pool.lock);
    if (!--pool.busy) pthread_cond_signal(&pool.idle);
  }
  return NULL;
}

static void forget_workers(void) { /* in the child of a fork, which has none of the threads */
  pthread_mutex_init(&pool.owner, NULL), pthread_mutex_init(&pool.lock, NULL);
  pthread_cond_init(&pool.wake, NULL), pthread_cond_init(&pool.idle, NULL);
  pool.workers = pool.places = pool.busy = 0;
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_workers); }

static void add_workers(int wanted) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sigset_t every, before;
  pthread_once(&once, watch_forks);
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before); /* Ctrl-C is for the threads of the program */
  for (pthread_t thread; pool.workers < wanted; pool.workers++) {
    if (pthread_create(&thread, NULL, worker, NULL)) break; /* with fewer it takes longer */
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int share(int64_t count, int threads, work_function *work, const void *context) {
  int helpers = (int)(count < threads ? count : threads) - 1;
  if (helpers > MOST_WORKERS) helpers = MOST_WORKERS;
  if (helpers < 1 || pthread_mutex_trylock(&pool.owner)) {
    int failed = 0;
    for (int64_t i = 0; i < count; i++) failed |= work(context, i);
    return failed;
  }
  pthread_mutex_lock(&pool.lock);
  pool.work = work, pool.context = context, pool.count = count;
  atomic_store(&pool.next, 0), atomic_store(&pool.failed, 0);
  fegetenv(&pool.settings);
  pool.places = helpers, pool.round++;
  add_workers(helpers);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  take_part();
  pthread_mutex_lock(&pool.lock);
  pool.places = 0; /* a worker that has not woken by now is not waited for */
  while (pool.busy) pthread_cond_wait(&pool.idle, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
  int failed = atomic_load(&pool.failed);
  pthread_mutex_unlock(&pool.owner);
  return failed;
}
