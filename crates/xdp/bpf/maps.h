/* The maps: memory that this program and the user tier share. `src/layout.rs` has the same structures; `layout.h`, made from
 * there, holds them against each other at compile time, and has the numbers of the counters. */
#pragma once
#include "bpf.h"
#include "layout.h"

/* One key's copy, written by the user tier alone, or a key that is lent, written here too. While it is written `seq` says by whom. */
struct entry {
	u64 seq;
	u64 version;
	u64 lease_end;
	u64 expires;
	u64 sum;       /* of key and value with their filler */
	u64 power;     /* BASE to the words of both */
	u64 key_sum;   /* the same of the key alone: with it a request's checksum is verified */
	u64 key_power;
	u32 hash;
	u32 item_flags;
	u32 value_len;
	u8 key_len;
	u8 kind;
	u16 unused;
	u64 number;    /* what the value is in digits, */
	u64 is_number; /* if it is one */
	u64 owned;     /* lent: 1 + its slot */
	u64 spare[3];
	u64 key[MAX_KEY_WORDS];
	u64 value[MAX_VALUE_WORDS];
};

/* The hashes of four entries, bit 32 set where there is one: what is not cached is found out by one cache line. */
struct bucket {
	u64 tag[WAYS];
};

/* Live registers. */
struct config {
	u32 enabled;
	u32 port;        /* host order */
	u32 address;     /* as it lies in the IP header; 0: any */
	u32 epoch;       /* of the registration table: replies say it */
	u32 bucket_mask;
	u32 sample;      /* time one frame in so many, a power of two; 0: none */
	u32 max_growth;
	u32 mtu;
	u32 filter;      /* a key that is not here goes up when it was seen so often; 0: always */
	u32 window;      /* counts halve when it grows */
	u32 filter_mask;
	u32 generation;  /* the rest is for loaders, not for this program */
	u32 owner;
	u32 mode;
	u64 netns;
	u64 seal_key[2]; /* the clients' */
	u64 counter;     /* of what this box sealed, the user tier too */
	u32 number;      /* the box's */
	u32 sealed;      /* writes must be, and their replies are */
};

/* What is begun in a session: `highest`, and by bit i the operation i below it. */
struct told {
	u64 session;
	u64 client;
	u64 highest;
	u64 begun;
};

/* A write that was done. */
struct record {
	u64 session;
	u64 operation;
	u64 status;
	u64 version;
	u64 number;
};

/* What belongs to a key that is lent. Written under its entry's lock. */
struct owned {
	u64 next; /* version */
	u64 count;
	u64 room; /* records */
	u64 sessions;
	u64 unused[4];
	struct told told[SESSIONS];
	struct record record[RECORDS];
};

/* Where a home is. The place is the lower bits of its number. */
struct home {
	u32 number;
	u32 address; /* as it lies in the IP header */
	u32 port;    /* host order; 0: nobody is here */
	u32 unused;
};

/* Counts of keys that are not here, a cache line: the hash chooses line and two cells, the smaller of which is the key's. A cell is a
 * window, 24 bits, and a count, 8. All CPUs write them, so a sight may get lost. */
struct sights {
	u32 cell[SIGHTS];
};

/* What one CPU counted. Only that CPU writes it. */
struct row {
	u64 count[COUNTERS];
	u64 hit_ns[TIMES];
	u64 pass_ns[TIMES];
};

/* One CPU's frame while it becomes a reply: contiguous from `link` (or link + 4 without a VLAN tag) to `key`. */
struct scratch {
	u8 unused[2];
	u8 link[18];
	u8 ip[20];
	u8 udp[8];
	u8 head[HEADER];
	u64 key[MAX_KEY_WORDS];
	u64 value[MAX_VALUE_WORDS];
};

LAYOUT_ASSERTIONS;

#define SHARED_ARRAY(name, value_type, entries) \
	struct { \
		MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); \
		MAP_NUMBER(map_flags, BPF_F_MMAPABLE); \
		MAP_NUMBER(max_entries, entries); \
		MAP_TYPE(key, u32); \
		MAP_TYPE(value, value_type); \
	} name SECTION(".maps")

/* The loader puts the true counts in. */
SHARED_ARRAY(config_map, struct config, 1);
SHARED_ARRAY(buckets, struct bucket, 1);
SHARED_ARRAY(entries, struct entry, WAYS);
SHARED_ARRAY(hits, u64, WAYS);
SHARED_ARRAY(rows, struct row, 1);
SHARED_ARRAY(homes, struct home, HOMES);
SHARED_ARRAY(sights, struct sights, 1);
SHARED_ARRAY(owned_keys, struct owned, 1);

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scratch);
} scratches SECTION(".maps");
