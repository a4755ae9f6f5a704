/* Writes of keys that the box owns and has lent to this program (`protocol::coherence::boxes::lent`): done here, once, and answered.
 *
 * A lent key is an entry whose `owned` names a slot: the sessions whose writes may be done, with what is begun in each, versions, and a record
 * of each write. What is not certainly new, or finds no room, goes up: the user tier takes the key back first, and then knows all.
 *
 * Ordering: the entry is locked by its `seq`, from the even number that its key was compared under (L1, compare and swap) to the next (L2).
 * So it is the same key, still lent, and nobody else writes: other CPUs and the user tier, which takes a key back by the same compare and swap, wait
 * or pass on. Between L1 and L2 there is no way out and no loop without a bound: the user tier may spin. The point of a write is the reading of
 * the clock, under the lock. Readers see what they see of any write (E1, E3).
 *
 * Tests: as box.c. */
#pragma once
#include "seal.h"

#define CAS(at, old, new) __sync_val_compare_and_swap(at, old, new)

/* What a write came to. */
struct outcome {
	u64 version;
	u64 number;
	u32 status;
};

/* The entry's number is this from now on. */
INLINE void store_number(struct entry *entry, u64 number)
{
	u64 w0 = 0, w1 = 0, w2 = 0, left = number;
	u32 len = 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 20; i++) {
		w2 = w2 << 8 | w1 >> 56;
		w1 = w1 << 8 | w0 >> 56;
		w0 = w0 << 8 | (left % 10 + '0');
		len++;
		left /= 10;
		if (!left)
			break;
	}
	u64 sum = ONCE(entry->key_sum), power = ONCE(entry->key_power);
	entry->value[0] = w0;
	entry->value[1] = w1;
	entry->value[2] = w2;
	sum = (sum * BASE + (u32)w0) * BASE + (w0 >> 32);
	power *= BASE * BASE;
	if (len > 8) {
		sum = (sum * BASE + (u32)w1) * BASE + (w1 >> 32);
		power *= BASE * BASE;
	}
	if (len > 16) {
		sum = (sum * BASE + (u32)w2) * BASE + (w2 >> 32);
		power *= BASE * BASE;
	}
	entry->sum = sum;
	entry->power = power;
	entry->number = number;
	entry->value_len = len;
	entry->kind = KIND_NUMBER;
}

INLINE u64 result_of(u32 opcode, u64 number, u64 operand)
{
	if (opcode == OPCODE_INCR)
		return number + operand;
	if (opcode == OPCODE_DECR)
		return number < operand ? 0 : number - operand;
	if (opcode == OPCODE_OR)
		return number | operand;
	if (opcode == OPCODE_MIN)
		return number < operand ? number : operand;
	return number > operand ? number : operand;
}

/* Does the write that `head` asks for, if it is certainly new and there is room for its record. The entry is locked. */
INLINE u32 write_owned(struct entry *entry, struct owned *owned, const u8 *head, u32 opcode, struct outcome *outcome)
{
	u64 session = AT64(head, WIRE_ROUND), client = AT64(head, WIRE_CLIENT);
	u64 operation = AT64(head, WIRE_OPERATION), operand = AT64(head, WIRE_OPERAND);
	u32 sessions = owned->sessions, at = SESSIONS;
	OPAQUE(sessions);
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SESSIONS; i++) {
		if (i >= sessions)
			break;
		if (owned->told[i].session == session && owned->told[i].client == client) {
			at = i;
			break;
		}
	}
	OPAQUE(at);
	u32 count = owned->count;
	OPAQUE(count);
	if (at >= SESSIONS || count >= RECORDS || (count >= owned->room && PLANTED != 14))
		return COUNT_UNSURE;
	struct told *told = &owned->told[at];
	u64 above = operation - told->highest, below = told->highest - operation;
	int higher = operation > told->highest;
	if (!higher && (below >= 64 || told->begun >> (below & 63) & 1) && PLANTED != 13)
		return COUNT_UNSURE;

	u64 old = entry->number, new = result_of(opcode, old, operand);
	int stores = new != old || opcode == OPCODE_INCR || opcode == OPCODE_DECR;
	if (stores) {
		entry->version = owned->next;
		owned->next = owned->next + (PLANTED != 18);
		store_number(entry, new);
	}
	if (higher) {
		told->begun = above < 64 ? told->begun << (above & 63) | 1 : 1;
		told->highest = operation;
	} else {
		told->begun |= 1ull << (below & 63);
	}
	outcome->status = !stores && opcode == OPCODE_COND_PUT ? STATUS_NOT_STORED : 0;
	outcome->version = entry->version;
	outcome->number = new;
	struct record *record = &owned->record[count];
	record->session = session;
	record->operation = operation;
	record->status = outcome->status;
	record->version = outcome->version;
	record->number = new;
	owned->count = count + 1;
	return COUNT_HITS;
}

/* Whether a client with the cluster's key wrote what is in `scratch`, for this box. */
INLINE u32 is_proven(struct xdp_md *ctx, const struct config *config, const struct request *request,
		     struct scratch *scratch)
{
	u64 tag[2], *proof = scratch->value;
	if (load_bytes(ctx, request->link + IP + UDP + HEADER + request->key_bytes, proof, PROOF))
		return 0;
	if ((u32)proof[0] != ROLE_CLIENT)
		return 0;
	tag_of(config, scratch, request->key_bytes, proof, ROLE_BOX | (u64)ONCE(config->number) << 16, 0, tag);
	return (tag[0] == proof[2] && tag[1] == proof[3]) || PLANTED == 15;
}

/* The proof of this box for the client to whom `scratch` goes, where the value would be. */
INLINE void seal(struct config *config, const struct request *request, struct scratch *scratch)
{
	u64 tag[2], *proof = scratch->value;
	proof[0] = ROLE_BOX | (u64)ONCE(config->number) << 16;
	proof[1] = PLANTED == 17 ? ONCE(config->counter) + 1 : __sync_fetch_and_add(&config->counter, 1) + 1;
	tag_of(config, scratch, request->key_bytes, proof, ROLE_CLIENT, AT64(scratch->head, WIRE_CLIENT), tag);
	proof[2] = tag[0];
	proof[3] = tag[1];
}

/* The write in `scratch` done, and its reply in its place; or why not. */
INLINE u32 own(struct xdp_md *ctx, struct entry *entry, struct config *config, struct request *request,
	       struct scratch *scratch, u32 *value_bytes)
{
	u8 *head = scratch->head;
	u32 sealed = request->sealed, slot = ONCE(entry->owned) - 1;
	struct owned *owned = map_lookup(&owned_keys, &slot);
	if (!owned)
		return COUNT_OTHER;
	if (sealed && !is_proven(ctx, config, request, scratch))
		return COUNT_UNPROVEN;
	u64 said = AT64(head, WIRE_CHECKSUM);
	AT64(head, WIRE_CHECKSUM) = 0;
	u64 key_sum = ONCE(entry->key_sum), key_power = ONCE(entry->key_power);
	if ((head_sum(head) * key_power + key_sum) * BASE != said)
		return COUNT_DAMAGED;

	u64 seq = request->seq;
	if (PLANTED == 19)
		ONCE_TO(entry->seq) = seq | PROGRAM_WRITES;
	else if (CAS(&entry->seq, seq, seq | PROGRAM_WRITES) != seq) /* L1 */
		return COUNT_TORN;
	struct outcome outcome = {};
	u64 now = ktime_ns();
	u32 verdict = COUNT_LEASE;
	if ((entry->lease_end > now && entry->expires > now) || PLANTED == 16)
		verdict = write_owned(entry, owned, head, request->opcode, &outcome);
	BARRIER();
	ONCE_TO(entry->seq) = seq + SEQ_STEP; /* L2 */
	if (verdict != COUNT_HITS)
		return verdict;

	reply_to(head, config, request->opcode, sealed ? FLAG_FROM_BOX | FLAG_SEALED : FLAG_FROM_BOX);
	AT64(head, WIRE_VERSION) = outcome.version;
	AT64(head, WIRE_OPERAND) = outcome.number;
	AT8(head, WIRE_STATUS) = outcome.status;
	AT64(head, WIRE_CHECKSUM) = (head_sum(head) * key_power + key_sum) * BASE;
	if (sealed)
		seal(config, request, scratch);
	*value_bytes = sealed ? PROOF : 0;
	return COUNT_HITS;
}
