/* Made by src/headers.rs; tests/headers.rs compares it. MILLRACE_BLESS=1 writes it anew. */
#pragma once

#define HEADER 160
#define MAGIC 0x636e69726c6dull
#define PROTOCOL 1
#define MAX_KEY 250
#define OPCODE_GET 1
#define OPCODE_COND_PUT 9
#define OPCODE_MIN 10
#define OPCODE_OR 12
#define OPCODE_REPLY 64
#define STATUS_NOT_STORED 3
#define FLAG_TRY 4
#define FLAG_FROM_BOX 2
#define BASE 0xd1342543de82ef95ull

#define WIRE_REQUEST 0
#define WIRE_MAGIC 2
#define WIRE_PROTOCOL 8
#define WIRE_OPCODE 9
#define WIRE_FLAGS 10
#define WIRE_HASH 12
#define WIRE_CHECKSUM 16
#define WIRE_VERSION 24
#define WIRE_CLIENT 32
#define WIRE_OPERATION 40
#define WIRE_OPERAND 48
#define WIRE_ROUND 56
#define WIRE_TTL 64
#define WIRE_EPOCH 72
#define WIRE_ITEM_FLAGS 76
#define WIRE_DEADLINE 80
#define WIRE_INCARNATION 84
#define WIRE_VALUE_LEN 88
#define WIRE_KEY_LEN 92
#define WIRE_KIND 93
#define WIRE_STATUS 94
#define WIRE_HOPS 95
#define WIRE_BOX 96
#define WIRE_HOME 98
#define WIRE_ATTEMPT 100
#define WIRE_PORT 102
#define WIRE_ADDRESS 104
#define WIRE_SHARER_BOXES 120
#define WIRE_SHARER_TOKENS 128
