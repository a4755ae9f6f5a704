/* Uses every function of libmillrace against real servers. `millrace/tests/languages/c.rs` compiles and runs it.
 *
 *   exercise items ADDRESS [CA]   all operations, wrong arguments, and requests under way together
 *   exercise login ADDRESS        the server knows ann, with password one
 *   exercise killed ADDRESS       works, says "ready", and goes on until the server is gone
 *   exercise nobody ADDRESS       nobody is there
 *   exercise rpc ADDRESS          a server of demo.Echo
 */
#include <millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not so: %s; session says: %s\n", __FILE__, __LINE__, #condition, millrace_error(session)); \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static millrace_session *session;

static int is(const millrace_item *item, const char *text) {
  return item->value != NULL && item->value_len == strlen(text) && memcmp(item->value, text, item->value_len) == 0;
}

static int says(const char *text) {
  return strstr(millrace_error(session), text) != NULL;
}

static void open_session(const char *address, const char *ca) {
  millrace_options options = {0};
  options.timeout_ms = 60000;
  options.tls_ca = ca;
  CHECK(millrace_open(address, &options, &session) == MILLRACE_OK);
}

static void operations(void) {
  millrace_item item;
  uint64_t sum = 0;
  CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_NOT_FOUND && item.value == NULL);
  CHECK(millrace_replace(session, "k", 1, "no", 2, 0, 0) == MILLRACE_NOT_STORED);
  CHECK(millrace_append(session, "k", 1, "no", 2) == MILLRACE_NOT_STORED);
  CHECK(millrace_delete(session, "k", 1) == MILLRACE_NOT_FOUND);
  CHECK(millrace_touch(session, "k", 1, 0) == MILLRACE_NOT_FOUND);
  CHECK(millrace_incr(session, "k", 1, 1, &sum) == MILLRACE_NOT_FOUND);
  CHECK(millrace_gat(session, "k", 1, 0, &item) == MILLRACE_NOT_FOUND);
  CHECK(millrace_cas(session, "k", 1, "no", 2, 0, 0, 1) == MILLRACE_NOT_FOUND);

  CHECK(millrace_add(session, "k", 1, "b", 1, 7, 0) == MILLRACE_OK);
  CHECK(millrace_add(session, "k", 1, "x", 1, 0, 0) == MILLRACE_NOT_STORED);
  CHECK(millrace_append(session, "k", 1, "c", 1) == MILLRACE_OK);
  CHECK(millrace_prepend(session, "k", 1, "a", 1) == MILLRACE_OK);
  CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_OK && is(&item, "abc") && item.flags == 7 && item.version == 0);
  CHECK(millrace_gets(session, "k", 1, &item) == MILLRACE_OK && is(&item, "abc") && item.version != 0);
  const uint64_t version = item.version;
  CHECK(millrace_cas(session, "k", 1, "no", 2, 0, 0, version + 1) == MILLRACE_EXISTS);
  CHECK(millrace_cas(session, "k", 1, "new", 3, 1, 0, version) == MILLRACE_OK);
  CHECK(millrace_replace(session, "k", 1, "newer", 5, 2, 0) == MILLRACE_OK);
  CHECK(millrace_gat(session, "k", 1, 1000, &item) == MILLRACE_OK && is(&item, "newer") && item.version > version);
  CHECK(millrace_touch(session, "k", 1, 0) == MILLRACE_OK);
  /* An empty value is a value; what has expired already is not there. */
  CHECK(millrace_set(session, "k", 1, NULL, 0, 0, 0) == MILLRACE_OK);
  CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_OK && item.value != NULL && item.value_len == 0);
  CHECK(millrace_set(session, "k", 1, "x", 1, 0, -1) == MILLRACE_OK);
  CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_NOT_FOUND);

  CHECK(millrace_set(session, "n", 1, "40", 2, 0, 0) == MILLRACE_OK);
  CHECK(millrace_incr(session, "n", 1, 2, &sum) == MILLRACE_OK && sum == 42);
  CHECK(millrace_decr(session, "n", 1, 50, &sum) == MILLRACE_OK && sum == 0);
  CHECK(millrace_incr(session, "n", 1, 1, NULL) == MILLRACE_OK);
  CHECK(millrace_set(session, "n", 1, "word", 4, 0, 0) == MILLRACE_OK);
  CHECK(millrace_incr(session, "n", 1, 1, &sum) == MILLRACE_NOT_A_NUMBER && says("no number"));
  CHECK(millrace_delete(session, "n", 1) == MILLRACE_OK);
}

static void many(void) {
  millrace_key keys[600];
  millrace_item items[600];
  char names[600][8] = {{0}};
  for (int i = 0; i < 600; i++) {
    keys[i].key_len = (size_t)snprintf(names[i], sizeof names[i], "m%d", i);
    keys[i].key = names[i];
    if (i % 3)
      CHECK(millrace_set(session, keys[i].key, keys[i].key_len, names[i], (size_t)i % 5, (uint32_t)i, 0) == MILLRACE_OK);
  }
  CHECK(millrace_multi_get(session, keys, 600, items) == MILLRACE_OK);
  for (int i = 0; i < 600; i++) {
    if (i % 3 == 0) {
      CHECK(items[i].value == NULL);
      continue;
    }
    const size_t len = (size_t)i % 5;
    CHECK(items[i].value != NULL && items[i].value_len == len && items[i].flags == (uint32_t)i);
    CHECK(memcmp(items[i].value, names[i], len) == 0 && items[i].version != 0);
  }
  CHECK(millrace_multi_get(session, keys, 0, NULL) == MILLRACE_OK);
}

static void pipeline(void) {
  enum { COUNT = 1000 };
  millrace_completion completion;
  uint64_t tickets[COUNT];
  CHECK(millrace_complete(session, 0, &completion) == MILLRACE_OK && completion.ticket == 0);
  CHECK(millrace_set(session, "p", 1, "0", 1, 0, 0) == MILLRACE_OK);
  for (int i = 0; i < COUNT; i++) {
    millrace_submission submission = {0};
    submission.operation = i % 2 ? MILLRACE_GETS : MILLRACE_INCR;
    submission.key = "p";
    submission.key_len = 1;
    submission.number = 1;
    CHECK(millrace_submit(session, &submission, &tickets[i]) == MILLRACE_OK);
  }
  millrace_item item;
  CHECK(millrace_under_way(session) == COUNT);
  CHECK(millrace_get(session, "p", 1, &item) == MILLRACE_BUSY && says("under way"));
  CHECK(millrace_flush(session) == MILLRACE_OK);
  for (int i = 0; i < COUNT; i++) {
    char number[24];
    CHECK(millrace_complete(session, 60000, &completion) == MILLRACE_OK);
    CHECK(completion.ticket == tickets[i] && completion.status == MILLRACE_OK);
    snprintf(number, sizeof number, "%d", i / 2 + 1);
    CHECK(i % 2 ? is(&completion.item, number) : completion.number == (uint64_t)(i / 2 + 1));
  }
  CHECK(millrace_under_way(session) == 0);

  /* Every operation can be submitted. */
  for (uint32_t operation = MILLRACE_GET; operation <= MILLRACE_TOUCH; operation++) {
    millrace_submission submission = {0};
    submission.operation = operation;
    submission.key = "q";
    submission.key_len = 1;
    submission.value = "1";
    submission.value_len = 1;
    submission.number = 1;
    CHECK(millrace_submit(session, &submission, NULL) == MILLRACE_OK);
    CHECK(millrace_complete(session, 60000, &completion) == MILLRACE_OK && completion.status >= MILLRACE_OK);
  }
}

static void wrong_arguments(void) {
  millrace_item item;
  millrace_completion completion;
  millrace_submission submission = {0};
  millrace_session *none = (millrace_session *)1;
  char long_key[300];
  memset(long_key, 'k', sizeof long_key);
  CHECK(millrace_get(NULL, "k", 1, &item) == MILLRACE_ARGUMENT);
  CHECK(millrace_get(session, "k", 1, NULL) == MILLRACE_ARGUMENT && says("item is null"));
  CHECK(millrace_get(session, NULL, 1, &item) == MILLRACE_ARGUMENT && says("key is null"));
  CHECK(millrace_get(session, "k", 0, &item) == MILLRACE_ARGUMENT && says("at least one byte"));
  CHECK(millrace_get(session, long_key, sizeof long_key, &item) == MILLRACE_ARGUMENT && says("at most 250"));
  CHECK(millrace_get(session, "a b", 3, &item) == MILLRACE_ARGUMENT && says("no spaces"));
  CHECK(millrace_get(session, "k", (size_t)-1, &item) == MILLRACE_ARGUMENT);
  CHECK(millrace_set(session, "k", 1, NULL, 5, 0, 0) == MILLRACE_ARGUMENT && says("value is null"));
  CHECK(millrace_multi_get(session, NULL, 3, &item) == MILLRACE_ARGUMENT);
  CHECK(millrace_multi_get(session, NULL, (size_t)-1, &item) == MILLRACE_ARGUMENT);
  CHECK(millrace_submit(session, NULL, NULL) == MILLRACE_ARGUMENT);
  submission.operation = 99;
  submission.key = "k";
  submission.key_len = 1;
  CHECK(millrace_submit(session, &submission, NULL) == MILLRACE_ARGUMENT && says("99 is no operation"));
  CHECK(millrace_complete(session, 0, NULL) == MILLRACE_ARGUMENT);
  CHECK(millrace_complete(NULL, 0, &completion) == MILLRACE_ARGUMENT);
  CHECK(millrace_login(session, NULL, "x") == MILLRACE_ARGUMENT);
  CHECK(millrace_under_way(NULL) == 0);
  CHECK(millrace_open(NULL, NULL, &none) == MILLRACE_ARGUMENT && none == NULL);
  CHECK(millrace_open("shm:/nowhere", NULL, NULL) == MILLRACE_ARGUMENT);
  CHECK(millrace_open("nonsense", NULL, &none) == MILLRACE_ARGUMENT && strstr(millrace_error(NULL), "write shm:/path"));
  CHECK(millrace_close(NULL) == MILLRACE_OK);
  CHECK(strcmp(millrace_strerror(MILLRACE_GONE), millrace_strerror(12345)) != 0 && millrace_version()[0] != 0);
  /* None of these has done the session harm. */
  CHECK(millrace_set(session, "k", 1, "v", 1, 0, 0) == MILLRACE_OK);
  CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_OK && is(&item, "v"));

  /* Longer than any server of the test takes. */
  const size_t huge = 64 << 20;
  char *bytes = calloc(1, huge);
  CHECK(millrace_set(session, "k", 1, bytes, huge, 0, 0) == MILLRACE_TOO_LARGE);
  CHECK(millrace_get(session, "other", 5, &item) == MILLRACE_NOT_FOUND);
  /* And one that it takes. */
  CHECK(millrace_set(session, "big", 3, bytes, 900000, 0, 0) == MILLRACE_OK);
  CHECK(millrace_get(session, "big", 3, &item) == MILLRACE_OK && item.value_len == 900000);
  free(bytes);
}

static int rpc(const char *address) {
  /* demo.SayRequest { text: "hello" } and its reply have the text as field 1. */
  static const char hello[] = "\x0a\x05hello";
  millrace_options options = {60000, NULL, NULL, NULL};
  const millrace_metadata metadata[1] = {{"who", "ann", 3}}, wrong[1] = {{"Who?", "ann", 3}};
  millrace_channel *channel;
  millrace_reply reply;
  CHECK(millrace_channel_open("nonsense", NULL, &channel) == MILLRACE_ARGUMENT && channel == NULL);
  CHECK(millrace_channel_open("shm:/nowhere", NULL, &channel) == MILLRACE_UNREACHABLE);
  CHECK(strstr(millrace_channel_error(NULL), "shm:/nowhere"));
  CHECK(millrace_channel_open(address, &options, &channel) == MILLRACE_OK);
  for (int i = 0; i < 1000; i++) {
    CHECK(millrace_call(channel, "/demo.Echo/Say", hello, sizeof hello - 1, metadata, 1, 0, &reply) == MILLRACE_OK);
    CHECK(reply.code == 0 && reply.body_len >= sizeof hello - 1 && memcmp(reply.body, hello, sizeof hello - 1) == 0);
  }
  CHECK(millrace_call(channel, "/demo.Echo/Nothing", hello, 0, NULL, 0, 0, &reply) == MILLRACE_OK && reply.code == 12);
  CHECK(strstr(reply.message, "/demo.Echo/Nothing") && reply.body == NULL);
  CHECK(millrace_call(channel, NULL, hello, 0, NULL, 0, 0, &reply) == MILLRACE_ARGUMENT);
  CHECK(millrace_call(channel, "/demo.Echo/Say", NULL, 7, NULL, 0, 0, &reply) == MILLRACE_ARGUMENT);
  CHECK(strstr(millrace_channel_error(channel), "body is null"));
  CHECK(millrace_call(channel, "/demo.Echo/Say", hello, 7, wrong, 1, 0, &reply) == MILLRACE_ARGUMENT);
  CHECK(millrace_call(channel, "/demo.Echo/Say", hello, 7, NULL, 1, 0, &reply) == MILLRACE_ARGUMENT);
  CHECK(millrace_call(channel, "/demo.Echo/Say", hello, 7, NULL, 0, 0, NULL) == MILLRACE_ARGUMENT);
  CHECK(millrace_call(NULL, "/demo.Echo/Say", hello, 7, NULL, 0, 0, &reply) == MILLRACE_ARGUMENT);
  CHECK(millrace_channel_close(channel) == MILLRACE_OK && millrace_channel_close(NULL) == MILLRACE_OK);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  const char *what = argv[1], *address = argv[2];
  if (strcmp(what, "rpc") == 0)
    return rpc(address);
  if (strcmp(what, "nobody") == 0) {
    CHECK(millrace_open(address, NULL, &session) == MILLRACE_UNREACHABLE && session == NULL);
    puts(millrace_error(NULL));
    return 0;
  }
  open_session(address, argc > 3 ? argv[3] : NULL);
  millrace_item item;
  if (strcmp(what, "items") == 0) {
    operations();
    many();
    pipeline();
    wrong_arguments();
    CHECK(millrace_set_timeout(session, 0) == MILLRACE_OK);
  } else if (strcmp(what, "login") == 0) {
    CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_LOGIN && says("-Y"));
    CHECK(millrace_login(session, "ann", "two") == MILLRACE_LOGIN);
    CHECK(millrace_login(session, "ann", "one") == MILLRACE_OK);
    CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_NOT_FOUND);
  } else {
    enum millrace_status status = MILLRACE_OK;
    for (uint64_t i = 0; status == MILLRACE_OK; i++) {
      status = millrace_set(session, "k", 1, &i, sizeof i, 0, 0);
      if (i == 100) {
        puts("ready");
        fflush(stdout);
      }
    }
    CHECK(status == MILLRACE_GONE && says("open another session"));
    CHECK(millrace_get(session, "k", 1, &item) == MILLRACE_GONE);
    puts("gone");
  }
  CHECK(millrace_close(session) == MILLRACE_OK);
  return 0;
}
