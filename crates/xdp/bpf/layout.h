/* Made by src/headers.rs; tests/headers.rs compares it. MILLRACE_BLESS=1 writes it anew. */
#pragma once

#define HEADER 160
#define WAYS 4
#define MAX_KEY_WORDS 32
#define MAX_VALUE_WORDS 128
#define TIMES 32
#define COUNTERS 32
#define HOMES 256
#define SIGHTS 16
#define SESSIONS 32
#define RECORDS 128
#define PROGRAM_WRITES 2
#define SEQ_STEP 4

#define COUNT_HITS 0
#define COUNT_DATAGRAMS 1
#define COUNT_FOREIGN 2
#define COUNT_OTHER 3
#define COUNT_GRANT 4
#define COUNT_RELAYED 5
#define COUNT_MISS 6
#define COUNT_LEASE 7
#define COUNT_EXPIRED 8
#define COUNT_ROOM 9
#define COUNT_TORN 10
#define COUNT_DAMAGED 11
#define COUNT_LOST 12
#define COUNT_FORWARDED 13
#define COUNT_STRANDED 14
#define COUNT_COMPUTED 15
#define COUNT_OWNED 16
#define COUNT_UNSURE 17
#define COUNT_UNPROVEN 18

/* Put after the structures. */
#define LAYOUT_ASSERTIONS \
	_Static_assert(__builtin_offsetof(struct entry, seq) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, version) == 8, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, lease_end) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, expires) == 24, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, sum) == 32, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, power) == 40, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, key_sum) == 48, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, key_power) == 56, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, hash) == 64, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, item_flags) == 68, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, value_len) == 72, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, key_len) == 76, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, kind) == 77, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, number) == 80, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, is_number) == 88, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, owned) == 96, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, key) == 128, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct entry, value) == 384, "as in layout.rs"); \
	_Static_assert(sizeof(struct entry) == 1408, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct bucket, tag) == 0, "as in layout.rs"); \
	_Static_assert(sizeof(struct bucket) == 32, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, enabled) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, port) == 4, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, address) == 8, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, epoch) == 12, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, bucket_mask) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, sample) == 20, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, max_growth) == 24, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, mtu) == 28, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, filter) == 32, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, window) == 36, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, filter_mask) == 40, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, generation) == 44, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, owner) == 48, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, mode) == 52, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, netns) == 56, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, seal_key) == 64, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, counter) == 80, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, number) == 88, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct config, sealed) == 92, "as in layout.rs"); \
	_Static_assert(sizeof(struct config) == 96, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct told, session) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct told, client) == 8, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct told, highest) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct told, begun) == 24, "as in layout.rs"); \
	_Static_assert(sizeof(struct told) == 32, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct record, session) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct record, operation) == 8, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct record, status) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct record, version) == 24, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct record, number) == 32, "as in layout.rs"); \
	_Static_assert(sizeof(struct record) == 40, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, next) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, count) == 8, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, room) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, sessions) == 24, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, told) == 64, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct owned, record) == 1088, "as in layout.rs"); \
	_Static_assert(sizeof(struct owned) == 6208, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct home, number) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct home, address) == 4, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct home, port) == 8, "as in layout.rs"); \
	_Static_assert(sizeof(struct home) == 16, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct sights, cell) == 0, "as in layout.rs"); \
	_Static_assert(sizeof(struct sights) == 64, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct row, count) == 0, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct row, hit_ns) == 256, "as in layout.rs"); \
	_Static_assert(__builtin_offsetof(struct row, pass_ns) == 512, "as in layout.rs"); \
	_Static_assert(sizeof(struct row) == 768, "as in layout.rs"); \
	_Static_assert(1, "")
