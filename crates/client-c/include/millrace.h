/* libmillrace: clients of millrace's key-value servers and of its RPC.
 *
 *   struct millrace_session *session;
 *   struct millrace_item item;
 *   if (millrace_open("shm:/run/millrace.shm", NULL, &session) != MILLRACE_OK)
 *     errx(1, "%s", millrace_error(NULL));
 *   millrace_set(session, "colour", 6, "blue", 4, 0, 0);
 *   if (millrace_get(session, "colour", 6, &item) == MILLRACE_OK)
 *     printf("%.*s\n", (int)item.value_len, item.value);
 *   millrace_close(session);
 *
 * Compile with `cc prog.c $(pkg-config --cflags --libs millrace)`.
 *
 * Memory: what a function hands out (items, errors, replies) lies in the session's or channel's memory until the next function of that session or
 * channel; free nothing. What is handed in is read before the function returns. Keys have 1 to 250 bytes, no spaces and no control characters.
 *
 * Threads: a session or channel is used by one thread at a time, whichever; a second one gets MILLRACE_BUSY. Sessions know nothing of each other.
 * After fork, a child opens its own.
 *
 * Made by `MILLRACE_BLESS=1 cargo test -p millrace-client-c --test header`: change the source.
 */

#ifndef MILLRACE_H
#define MILLRACE_H

#include <stddef.h>
#include <stdint.h>

/**
 * How a function ended. What is not negative is the outcome of a request that the server answered.
 */
typedef enum millrace_status {
  /**
   * Done, or found.
   */
  MILLRACE_OK = 0,
  /**
   * There is no such item.
   */
  MILLRACE_NOT_FOUND = 1,
  /**
   * The condition of an add, replace, append or prepend does not hold.
   */
  MILLRACE_NOT_STORED = 2,
  /**
   * Another version is there than the one that a cas asked for.
   */
  MILLRACE_EXISTS = 3,
  /**
   * An argument is null or wrong. Nothing was sent.
   */
  MILLRACE_ARGUMENT = -1,
  /**
   * The server cannot be reached.
   */
  MILLRACE_UNREACHABLE = -2,
  /**
   * The server is gone; a write that was under way was done or not. Close this session and open another.
   */
  MILLRACE_GONE = -3,
  /**
   * No answer in time; a write was done, will be, or not.
   */
  MILLRACE_TIMED_OUT = -4,
  /**
   * Another thread is in a function of this session or channel, or requests are under way that are to be completed first.
   */
  MILLRACE_BUSY = -5,
  /**
   * As many requests are under way as can be. Complete some, then submit again.
   */
  MILLRACE_FULL = -6,
  /**
   * The value is too long for the server or for its rings. Nothing was changed.
   */
  MILLRACE_TOO_LARGE = -7,
  /**
   * What is there is no number. Nothing was changed.
   */
  MILLRACE_NOT_A_NUMBER = -8,
  /**
   * The server has users, and does not know this one.
   */
  MILLRACE_LOGIN = -9,
  /**
   * The server refused it; millrace_error has its words.
   */
  MILLRACE_REFUSED = -10,
  /**
   * The server broke the protocol. Close this session and open another.
   */
  MILLRACE_PROTOCOL = -11,
  /**
   * A mistake of this library. The session or channel does nothing more.
   */
  MILLRACE_INTERNAL = -12,
} millrace_status;

/**
 * What a submitted request does.
 */
typedef enum millrace_operation {
  /**
   * As millrace_get.
   */
  MILLRACE_GET = 0,
  /**
   * As millrace_gets.
   */
  MILLRACE_GETS = 1,
  /**
   * As millrace_gat.
   */
  MILLRACE_GAT = 2,
  /**
   * As millrace_set.
   */
  MILLRACE_SET = 3,
  /**
   * As millrace_add.
   */
  MILLRACE_ADD = 4,
  /**
   * As millrace_replace.
   */
  MILLRACE_REPLACE = 5,
  /**
   * As millrace_append.
   */
  MILLRACE_APPEND = 6,
  /**
   * As millrace_prepend.
   */
  MILLRACE_PREPEND = 7,
  /**
   * As millrace_cas; `number` is the version.
   */
  MILLRACE_CAS = 8,
  /**
   * As millrace_delete.
   */
  MILLRACE_DELETE = 9,
  /**
   * As millrace_incr; `number` is how much.
   */
  MILLRACE_INCR = 10,
  /**
   * As millrace_decr; `number` is how much.
   */
  MILLRACE_DECR = 11,
  /**
   * As millrace_touch.
   */
  MILLRACE_TOUCH = 12,
} millrace_operation;

/**
 * A channel to a server of the fabric; it connects again when its server comes back. A thread uses it at a time.
 */
typedef struct millrace_channel millrace_channel;

/**
 * A session with a key-value server. A thread uses it at a time; threads that work together have one each.
 */
typedef struct millrace_session millrace_session;

/**
 * How a session or a channel is opened. Zeros are the defaults.
 */
typedef struct millrace_options {
  /**
   * How long an operation waits for its answer, in milliseconds; 0: a second.
   */
  uint32_t timeout_ms;
  /**
   * For tls: a file of authorities (PEM), one of which must have signed the server's certificate.
   */
  const char *tls_ca;
  /**
   * For servers that ask for one: a file with the own certificate (PEM).
   */
  const char *tls_cert;
  /**
   * And one with its key.
   */
  const char *tls_key;
} millrace_options;

/**
 * Something that is said with a call, beside its message.
 */
typedef struct millrace_metadata {
  /**
   * Its name: small letters, digits, `-`, `_` and `.`.
   */
  const char *key;
  /**
   * Its value.
   */
  const void *value;
  /**
   * Bytes of the value.
   */
  size_t value_len;
} millrace_metadata;

/**
 * How a call ended. It lies in the channel's memory until the channel's next function.
 */
typedef struct millrace_reply {
  /**
   * gRPC's status code: 0 is OK.
   */
  uint32_t code;
  /**
   * Not 0: the connection broke, and the call may have taken effect.
   */
  uint32_t is_lost;
  /**
   * Of OK: the message, encoded. Else null.
   */
  const uint8_t *body;
  /**
   * Bytes of `body`.
   */
  size_t body_len;
  /**
   * Of others: why, in English. Else empty.
   */
  const char *message;
} millrace_reply;

/**
 * An item. Its value lies in the session's memory until the session's next function: copy what is to stay, free nothing.
 */
typedef struct millrace_item {
  /**
   * The value; null only where there is no item.
   */
  const uint8_t *value;
  /**
   * Bytes of `value`.
   */
  size_t value_len;
  /**
   * The write that made it, for millrace_cas; 0 where it was not asked for.
   */
  uint64_t version;
  /**
   * The number that was stored with it.
   */
  uint32_t flags;
} millrace_item;

/**
 * A key of millrace_multi_get.
 */
typedef struct millrace_key {
  /**
   * `key_len` bytes.
   */
  const void *key;
  /**
   * How many: 1 to 250.
   */
  size_t key_len;
} millrace_key;

/**
 * A request to submit. Its key and value are read by millrace_submit, and not afterwards.
 */
typedef struct millrace_submission {
  /**
   * One of enum millrace_operation.
   */
  uint32_t operation;
  /**
   * The number that a store keeps with the value.
   */
  uint32_t flags;
  /**
   * The key.
   */
  const void *key;
  /**
   * Its bytes: 1 to 250.
   */
  size_t key_len;
  /**
   * What is stored.
   */
  const void *value;
  /**
   * Bytes of `value`.
   */
  size_t value_len;
  /**
   * When it expires, as for millrace_set.
   */
  int64_t expiry_s;
  /**
   * A version, or how much is added or subtracted.
   */
  uint64_t number;
} millrace_submission;

/**
 * The answer to a submitted request.
 */
typedef struct millrace_completion {
  /**
   * Which request it is the answer to; 0: to none, since none is under way.
   */
  uint64_t ticket;
  /**
   * How it ended.
   */
  enum millrace_status status;
  /**
   * Of reads: the item.
   */
  struct millrace_item item;
  /**
   * Of incr and decr: the sum.
   */
  uint64_t number;
} millrace_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a channel to the server at an address: `shm:/path`, `unix:/path`, `tcp:HOST:PORT`, `tls:HOST:PORT` or `udp:HOST:PORT`. `options` may be
 * null. On success `*channel` is to be closed with millrace_channel_close; else it is null, and `millrace_channel_error(NULL)` says why.
 */
enum millrace_status millrace_channel_open(const char *address,
                                           const struct millrace_options *options,
                                           struct millrace_channel **channel);

/**
 * Closes a channel, which may be null. MILLRACE_BUSY: another thread is in it, and it stays open.
 */
enum millrace_status millrace_channel_close(struct millrace_channel *channel);

/**
 * Why the channel's last function failed, as millrace_error; how a call ended is in its reply.
 */
const char *millrace_channel_error(const struct millrace_channel *channel);

/**
 * Calls a unary method, as `/shop.Cart/Add`, with an encoded message and `metadata_count` pairs of metadata, and waits for how it ends, for
 * `timeout_ms` at most (0: as the channel was opened). MILLRACE_OK says that `reply` is written, of whichever code. A call that is lost is not
 * repeated.
 */
enum millrace_status millrace_call(struct millrace_channel *channel,
                                   const char *method,
                                   const void *body,
                                   size_t body_len,
                                   const struct millrace_metadata *metadata,
                                   size_t metadata_count,
                                   uint32_t timeout_ms,
                                   struct millrace_reply *reply);

/**
 * The item of a key. MILLRACE_NOT_FOUND: there is none.
 */
enum millrace_status millrace_get(struct millrace_session *session,
                                  const void *key,
                                  size_t key_len,
                                  struct millrace_item *item);

/**
 * The item of a key with its version, for millrace_cas. MILLRACE_NOT_FOUND: there is none.
 */
enum millrace_status millrace_gets(struct millrace_session *session,
                                   const void *key,
                                   size_t key_len,
                                   struct millrace_item *item);

/**
 * The item of a key with its version; it expires at another time from now on, as for millrace_set. MILLRACE_NOT_FOUND: there is none.
 */
enum millrace_status millrace_gat(struct millrace_session *session,
                                  const void *key,
                                  size_t key_len,
                                  int64_t expiry_s,
                                  struct millrace_item *item);

/**
 * The items of `count` keys with their versions, asked for together: `items[i]` is that of `keys[i]`, with a null value where there is none. All
 * stay until the session's next function. MILLRACE_OK also where some, or all, are not there; a failure is of all.
 */
enum millrace_status millrace_multi_get(struct millrace_session *session,
                                        const struct millrace_key *keys,
                                        size_t count,
                                        struct millrace_item *items);

/**
 * Stores a value, whatever is there. `expiry_s` are seconds from now, up to 30 days; a larger number is a Unix time; 0 is for ever; what is
 * negative has expired already.
 */
enum millrace_status millrace_set(struct millrace_session *session,
                                  const void *key,
                                  size_t key_len,
                                  const void *value,
                                  size_t value_len,
                                  uint32_t flags,
                                  int64_t expiry_s);

/**
 * Stores where nothing is; else MILLRACE_NOT_STORED.
 */
enum millrace_status millrace_add(struct millrace_session *session,
                                  const void *key,
                                  size_t key_len,
                                  const void *value,
                                  size_t value_len,
                                  uint32_t flags,
                                  int64_t expiry_s);

/**
 * Stores where something is; else MILLRACE_NOT_STORED.
 */
enum millrace_status millrace_replace(struct millrace_session *session,
                                      const void *key,
                                      size_t key_len,
                                      const void *value,
                                      size_t value_len,
                                      uint32_t flags,
                                      int64_t expiry_s);

/**
 * Stores where `version` is, of millrace_gets; else MILLRACE_EXISTS or MILLRACE_NOT_FOUND.
 */
enum millrace_status millrace_cas(struct millrace_session *session,
                                  const void *key,
                                  size_t key_len,
                                  const void *value,
                                  size_t value_len,
                                  uint32_t flags,
                                  int64_t expiry_s,
                                  uint64_t version);

/**
 * Adds bytes behind those that are there; MILLRACE_NOT_STORED: nothing is. Flags and expiry stay as they are.
 */
enum millrace_status millrace_append(struct millrace_session *session,
                                     const void *key,
                                     size_t key_len,
                                     const void *value,
                                     size_t value_len);

/**
 * Adds bytes before those that are there; MILLRACE_NOT_STORED: nothing is. Flags and expiry stay as they are.
 */
enum millrace_status millrace_prepend(struct millrace_session *session,
                                      const void *key,
                                      size_t key_len,
                                      const void *value,
                                      size_t value_len);

/**
 * Removes an item. MILLRACE_NOT_FOUND: there was none.
 */
enum millrace_status millrace_delete(struct millrace_session *session, const void *key, size_t key_len);

/**
 * Has an item expire at another time, as for millrace_set. MILLRACE_NOT_FOUND: there is none.
 */
enum millrace_status millrace_touch(struct millrace_session *session,
                                    const void *key,
                                    size_t key_len,
                                    int64_t expiry_s);

/**
 * Adds to a decimal number, modulo 2^64; `sum`, which may be null, is what is there then. MILLRACE_NOT_FOUND: nothing is.
 */
enum millrace_status millrace_incr(struct millrace_session *session,
                                   const void *key,
                                   size_t key_len,
                                   uint64_t by,
                                   uint64_t *sum);

/**
 * Subtracts from a decimal number, down to 0; else as millrace_incr.
 */
enum millrace_status millrace_decr(struct millrace_session *session,
                                   const void *key,
                                   size_t key_len,
                                   uint64_t by,
                                   uint64_t *sum);

/**
 * Submits a request, and writes its ticket, which may be null. It is on its way at the latest after millrace_flush or millrace_complete; answers come
 * in the order in which requests were submitted. MILLRACE_FULL: complete some, then submit it again.
 */
enum millrace_status millrace_submit(struct millrace_session *session,
                                     const struct millrace_submission *submission,
                                     uint64_t *ticket);

/**
 * Sends what was submitted on its way.
 */
enum millrace_status millrace_flush(struct millrace_session *session);

/**
 * Waits for the next answer, for `timeout_ms` at most (0: a second), and writes it; MILLRACE_OK says that there is one, or with ticket 0 that nothing
 * is under way. How the request went is the completion's status. MILLRACE_TIMED_OUT: it goes on being under way.
 */
enum millrace_status millrace_complete(struct millrace_session *session,
                                       uint32_t timeout_ms,
                                       struct millrace_completion *completion);

/**
 * How many requests were submitted and not completed; 0 of null, and while another thread is in the session.
 */
size_t millrace_under_way(const struct millrace_session *session);

/**
 * Opens a session with the server at an address: `shm:/path` (a server's `--shm`), `unix:/path`, `HOST:PORT` or `tls:HOST:PORT`. `options` may be
 * null. On success `*session` is to be closed with millrace_close; else it is null, and `millrace_error(NULL)` says why.
 */
enum millrace_status millrace_open(const char *address,
                                   const struct millrace_options *options,
                                   struct millrace_session **session);

/**
 * Closes a session, which may be null; requests under way are given up. MILLRACE_BUSY: another thread is in it, and it stays open.
 */
enum millrace_status millrace_close(struct millrace_session *session);

/**
 * Why the session's last function failed, and what to do, in English; of null, why this thread's last session or channel could not be opened.
 * It stays until the session's next function; empty if none failed.
 */
const char *millrace_error(const struct millrace_session *session);

/**
 * How long operations wait from now on, in milliseconds; 0: a second.
 */
enum millrace_status millrace_set_timeout(struct millrace_session *session, uint32_t timeout_ms);

/**
 * Says who asks, to a server with users (its `-Y`), before anything else is asked.
 */
enum millrace_status millrace_login(struct millrace_session *session, const char *user, const char *password);

/**
 * What a status means, in English. Never null, also of a number that is no status; it stays.
 */
const char *millrace_strerror(int32_t status);

/**
 * The version of this library, as `0.2.0`. It stays.
 */
const char *millrace_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLRACE_H */
