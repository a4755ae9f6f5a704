/* One side of compare/clients.py, in C: libmillrace, or with -DLIBMEMCACHED libmemcached. For each line `get COUNT` or `set COUNT` it does so many,
 * one after the other, and prints the nanoseconds that they took. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 1000, VALUE_BYTES = 64 };
static char keys[KEYS][16], value[VALUE_BYTES];

static void must(int done, const char *why) {
  if (!done) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
}

#ifdef LIBMEMCACHED
#include <libmemcached/memcached.h>
static memcached_st *client;

static void connect_to(const char *host, const char *port) {
  client = memcached_create(NULL);
  must(memcached_server_add(client, host, (in_port_t)atoi(port)) == MEMCACHED_SUCCESS, "no such server");
  memcached_behavior_set(client, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
}

static void get(const char *key) {
  size_t len;
  uint32_t flags;
  memcached_return_t status;
  char *found = memcached_get(client, key, strlen(key), &len, &flags, &status);
  must(found != NULL && len == VALUE_BYTES, memcached_strerror(client, status));
  free(found);
}

static void set(const char *key) {
  memcached_return_t status = memcached_set(client, key, strlen(key), value, VALUE_BYTES, 0, 0);
  must(status == MEMCACHED_SUCCESS, memcached_strerror(client, status));
}
#else
#include <millrace.h>
static millrace_session *client;

static void connect_to(const char *address, const char *unused) {
  (void)unused;
  must(millrace_open(address, NULL, &client) == MILLRACE_OK, millrace_error(NULL));
}

static void get(const char *key) {
  millrace_item item;
  must(millrace_get(client, key, strlen(key), &item) == MILLRACE_OK && item.value_len == VALUE_BYTES, millrace_error(client));
}

static void set(const char *key) {
  must(millrace_set(client, key, strlen(key), value, VALUE_BYTES, 0, 0) == MILLRACE_OK, millrace_error(client));
}
#endif

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int main(int argc, char **argv) {
  must(argc > 2, "side ADDRESS PORT");
  connect_to(argv[1], argv[2]);
  memset(value, 'v', sizeof value);
  for (int i = 0; i < KEYS; i++) {
    snprintf(keys[i], sizeof keys[i], "key-%d", i);
    set(keys[i]);
  }
  char operation[8];
  long count;
  while (scanf("%7s %ld", operation, &count) == 2) {
    void (*act)(const char *) = operation[0] == 'g' ? get : set;
    const int64_t begun = now_ns();
    for (long i = 0; i < count; i++)
      act(keys[i % KEYS]);
    printf("%lld\n", (long long)(now_ns() - begun));
    fflush(stdout);
  }
  return 0;
}
