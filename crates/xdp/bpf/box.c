/* Answers GETs of cached keys, tries that compute, and writes of keys that the box owns, before the network stack sees them. Everything else goes up to the user tier's socket, which
 * decides all there is to decide: fills, leases, invalidation, eviction. `docs/wire.md` describes the packet.
 *
 * Shape: `recognise` looks at Ethernet, at most one VLAN tag, IPv4 and UDP; `plain_request` at our header where it lies; `find`
 * compares the whole key; `answer_from` copies the entry into this CPU's scratch, or `own` (own.h) does the write; `send` writes the answer over the
 * request, whose buffer grows at its head or shrinks at its tail.
 * No frame is touched before it is certain that it will be answered or sent on: whatever is passed up is as it came.
 *
 * The filter (off unless config says how many sights): a GET that came from a client itself, of a key that is not here and was seldom seen
 * lately, wakes nobody. `screen` counts it and sends the frame on to the home that the request names, with nothing changed but what a
 * router and a change of destination change: so the home takes it for the client's own, which it is, and answers the client. Routes and
 * neighbours are the kernel's; what it cannot say is left to the user tier, which asks in other ways. The request's checksum is
 * not looked at: the home does.
 *
 * Ordering, the seqlock (labels as in src/entries.rs): (E1) `seq` is read, and nobody writes; (E2) the entry and the clock are read; (E3)
 * `seq` is read again and is the same. x86 keeps loads in their order and the writer's stores in theirs, so compiler barriers
 * do; on ARM E1 would need a load-acquire and E3 a load barrier before it, which eBPF has only since Linux 6.14: the loader refuses
 * other machines. A frame that meets a write is passed on; nobody waits here.
 *
 * Why a hit is linearizable: its point is the reading of the clock. Between E1 and E3 the entry did not change, so at that
 * moment it was there; its lease was compared with that very time. An invalidation that returned before E1 is seen by E1 or by
 * the comparison; one that comes later does not undo a point that lies before it.
 *
 * Verifier: both loops run to a count of their own, a quotient that the verifier does not connect with the length it came from. Else it
 * would take every exit for a state of its own, and a million instructions would not do.
 *
 * Tests: tests/program.rs holds every frame against `xdp::reference`. PLANTED is a bug that they must find (tests/planted.rs).
 *
 * Cost: docs/measurements/xdp.md. */
#include "bpf.h"
#include "maps.h"
#include "wire.h"
#include "seal.h"

#ifndef PLANTED
#define PLANTED 0
#endif

#define ETHERNET 14
#define TAGGED 18
#define IP 20
#define UDP 8
#define SWAP16(x) ((u16)__builtin_bswap16(x))

#define AT8(base, offset) (*(u8 *)((u8 *)(base) + (offset)))
#define AT16(base, offset) (*(u16 *)((u8 *)(base) + (offset)))
#define AT32(base, offset) (*(u32 *)((u8 *)(base) + (offset)))
#define AT64(base, offset) (*(u64 *)((u8 *)(base) + (offset)))

/* What is known of a frame that is for us. */
struct request {
	u32 link;      /* bytes before the IP header */
	u32 frame_len;
	u32 payload;   /* of the UDP datagram */
	u32 key_bytes; /* with filler */
	u32 key_len;
	u32 hash;
	u32 out;       /* interface by which it is sent on */
	u32 opcode;
	u32 computed;  /* the reply has a result, no value */
	u32 owns;      /* it is a write, for the owner of its key */
	u32 sealed;
	u32 index;     /* of the key's entry */
	u64 seq;       /* of that entry when the key was compared */
};

/* P^4 moves four words at once: the multiplications of a block do not wait for each other. */
INLINE u64 head_sum(const u8 *head)
{
	const u64 p2 = BASE * BASE, p3 = p2 * BASE, p4 = p2 * p2;
	u64 sum = 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < HEADER; i += 16)
		sum = sum * p4 + AT32(head, i) * p3 + AT32(head, i + 4) * p2 + AT32(head, i + 8) * BASE +
		      AT32(head, i + 12);
	return sum;
}

INLINE u32 ip_sum(const u8 *ip)
{
	u32 sum = 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < IP; i += 2)
		sum += AT16(ip, i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Where our header lies, if this frame is a datagram to the box's port; 0 where it is none. */
INLINE u8 *recognise(struct xdp_md *ctx, const struct config *config, struct request *request)
{
	u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
	u32 link = ETHERNET;
	u32 frame_len = end - data;

	if (data + ETHERNET + IP + UDP + HEADER > end || data[0] & 1)
		return 0;
	u16 protocol = AT16(data, 12);
	if (protocol == SWAP16(0x8100)) {
		protocol = AT16(data, 16);
		link = TAGGED;
	}
	if (protocol != SWAP16(0x0800))
		return 0;

	u8 *ip = data + link;
	if (ip + IP + UDP + HEADER > end)
		return 0;
	/* No options, UDP, no fragment, as long as the frame. */
	if (ip[0] != 0x45 || ip[9] != 17 || (AT16(ip, 6) & ~SWAP16(0x4000)) || ip[8] == 0)
		return 0;
	if (SWAP16(AT16(ip, 2)) != frame_len - link)
		return 0;
	u32 address = ONCE(config->address);
	if (AT16(ip, 22) != SWAP16((u16)ONCE(config->port)) || (address && AT32(ip, 16) != address))
		return 0;
	if (SWAP16(AT16(ip, 24)) != frame_len - link - IP || AT16(ip, 20) == 0 || ip_sum(ip) != 0xffff)
		return 0;
	request->link = link;
	request->frame_len = frame_len;
	request->payload = frame_len - link - IP - UDP;
	return ip + IP + UDP;
}

/* Whether the header at `head` is, from a client itself, that of a GET or a try that computes, which a copy may answer, or of a write for the owner of
 * its key. Its epoch says nothing, for clients go by no table. */
INLINE u32 plain_request(const u8 *head, const struct config *config, struct request *request)
{
	if (AT64(head, WIRE_REQUEST) >> 16 != MAGIC)
		return COUNT_OTHER;
	u32 opcode = AT8(head, WIRE_OPCODE), flags = AT16(head, WIRE_FLAGS), sealed = ONCE(config->sealed);
	int tries = flags == FLAG_TRY && opcode >= OPCODE_COND_PUT && opcode <= OPCODE_OR;
	int owns = flags == (sealed ? FLAG_OWNABLE | FLAG_SEALED : FLAG_OWNABLE) && opcode >= OPCODE_INCR &&
		   opcode <= OPCODE_OR;
	if (AT8(head, WIRE_PROTOCOL) != PROTOCOL || !(tries || owns || (opcode == OPCODE_GET && !flags)))
		return COUNT_OTHER;
	request->opcode = opcode;
	request->owns = owns;
	request->sealed = owns && sealed;
	u32 key_len = AT8(head, WIRE_KEY_LEN);
	u32 key_bytes = (key_len + 7) & ~7u;
	if (key_len == 0 || key_len > MAX_KEY || HEADER + key_bytes + (request->sealed ? PROOF : 0) > request->payload || AT32(head, WIRE_VALUE_LEN) ||
	    AT8(head, WIRE_KIND) || AT8(head, WIRE_STATUS))
		return COUNT_OTHER;
	if (!AT16(head, WIRE_PORT) && (AT64(head, WIRE_ADDRESS) | AT64(head, WIRE_ADDRESS + 8)))
		return COUNT_OTHER;
	if (AT64(head, WIRE_SHARER_BOXES) | AT64(head, WIRE_SHARER_TOKENS) | AT64(head, WIRE_SHARER_TOKENS + 8) |
	    AT64(head, WIRE_SHARER_TOKENS + 16) | AT64(head, WIRE_SHARER_TOKENS + 24))
		return COUNT_GRANT;
	if ((AT8(head, WIRE_HOPS) || AT16(head, WIRE_PORT)) && PLANTED != 8)
		return COUNT_RELAYED;
	request->key_len = key_len;
	request->key_bytes = key_bytes;
	request->hash = AT32(head, WIRE_HASH);
	return COUNT_HITS;
}

/* Copies the frame's headers and key. The sizes are spelt out because the verifier wants to see them. */
INLINE long load(struct xdp_md *ctx, const struct request *request, struct scratch *scratch)
{
	u32 key_bytes = request->key_bytes;
	OPAQUE(key_bytes);
	if (key_bytes > 8 * MAX_KEY_WORDS)
		return -1;
	if (request->link == ETHERNET)
		return load_bytes(ctx, 0, &scratch->link[4], ETHERNET + IP + UDP + HEADER + key_bytes);
	return load_bytes(ctx, 0, &scratch->link[0], TAGGED + IP + UDP + HEADER + key_bytes);
}

INLINE int same_key(const struct entry *entry, const struct scratch *scratch, const struct request *request)
{
	if (ONCE(entry->key_len) != request->key_len)
		return 0;
	u32 words = request->key_bytes / 8;
	OPAQUE(words);
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_KEY_WORDS; i++) {
		if (i >= words)
			break;
		if (entry->key[i] != scratch->key[i] && PLANTED != 1)
			return 0;
	}
	return 1;
}

/* Whether a reply with so long a value has room, given how far a frame may grow. */
INLINE int has_room(const struct config *config, const struct request *request, u32 value_bytes)
{
	u32 packet = IP + UDP + HEADER + request->key_bytes + value_bytes;
	return request->link + packet <= request->frame_len ||
	       (request->link + packet - request->frame_len <= ONCE(config->max_growth) && packet <= ONCE(config->mtu));
}

/* Whether a try changes nothing here. Its outcome is then all that the reply says. */
INLINE int changes_nothing(const struct entry *entry, u32 opcode, u64 operand)
{
	u64 number = ONCE(entry->number);
	u64 result = opcode == OPCODE_OR ? number | operand : number > operand ? number : operand;
	if (opcode == OPCODE_MIN)
		result = number < operand ? number : operand;
	return result == number || PLANTED == 12;
}

/* The header in scratch as a reply's, without what it says of the item; the checksum is to be written. */
INLINE void reply_to(u8 *head, const struct config *config, u32 opcode, u32 flags)
{
	AT8(head, WIRE_OPCODE) = opcode | OPCODE_REPLY;
	AT16(head, WIRE_FLAGS) = flags;
	AT64(head, WIRE_CHECKSUM) = 0;
	AT64(head, WIRE_TTL) = ~0ull;
	AT32(head, WIRE_EPOCH) = ONCE(config->epoch);
	AT32(head, WIRE_ITEM_FLAGS) = 0;
	AT32(head, WIRE_DEADLINE) = PLANTED == 6 ? AT32(head, WIRE_DEADLINE) : 0;
	AT32(head, WIRE_INCARNATION) = 0;
	AT16(head, WIRE_BOX) = 0;
}

#include "own.h"

/* The entry as a reply's header and value in `scratch`, if it may be used now. `*value_bytes` is the value with its filler. */
INLINE u32 answer_from(const struct entry *entry, const struct config *config, struct request *request,
		       struct scratch *scratch, u32 *value_bytes)
{
	u64 seq = request->seq;
	u64 now = ktime_ns(); /* E2 */
	if (ONCE(entry->lease_end) <= now && PLANTED != 2)
		return COUNT_LEASE;
	u64 expires = ONCE(entry->expires);
	if (expires <= now && PLANTED != 3)
		return COUNT_EXPIRED;

	u32 value_len = ONCE(entry->value_len);
	u32 bytes = (value_len + 7) & ~7u;
	if (bytes > 8 * MAX_VALUE_WORDS)
		return COUNT_TORN;
	u8 *head = scratch->head;
	int computed = 0;
	if (request->opcode != OPCODE_GET) {
		if (!ONCE(entry->is_number))
			return COUNT_OTHER;
		computed = changes_nothing(entry, request->opcode, AT64(head, WIRE_OPERAND));
	}
	if (computed)
		value_len = bytes = 0;
	if (!has_room(config, request, bytes))
		return COUNT_ROOM;

	u64 said = AT64(head, WIRE_CHECKSUM);
	AT64(head, WIRE_CHECKSUM) = 0;
	if ((head_sum(head) * ONCE(entry->key_power) + ONCE(entry->key_sum)) * BASE != said &&
	    PLANTED != 4)
		return COUNT_DAMAGED;
	reply_to(head, config, request->opcode, computed ? FLAG_FROM_BOX | FLAG_TRY : FLAG_FROM_BOX);
	AT64(head, WIRE_VERSION) = ONCE(entry->version);
	AT64(head, WIRE_OPERAND) = computed ? ONCE(entry->number) : 0;
	AT64(head, WIRE_ROUND) = 0;
	AT64(head, WIRE_TTL) = expires == ~0ull || computed ? ~0ull : expires - now;
	AT32(head, WIRE_ITEM_FLAGS) = computed ? 0 : ONCE(entry->item_flags);
	AT32(head, WIRE_VALUE_LEN) = value_len;
	AT8(head, WIRE_KIND) = computed ? 0 : ONCE(entry->kind);
	AT8(head, WIRE_STATUS) = computed && request->opcode == OPCODE_COND_PUT ? STATUS_NOT_STORED : 0;
	u64 sum = computed ? head_sum(head) * ONCE(entry->key_power) + ONCE(entry->key_sum)
			   : head_sum(head) * ONCE(entry->power) + ONCE(entry->sum);
	AT64(head, WIRE_CHECKSUM) = sum * BASE;
	u32 blocks = (bytes + 31) / 32;
	OPAQUE(blocks);
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_VALUE_WORDS; i += 4) {
		if (i / 4 >= blocks)
			break;
		scratch->value[i] = entry->value[i];
		scratch->value[i + 1] = entry->value[i + 1];
		scratch->value[i + 2] = entry->value[i + 2];
		scratch->value[i + 3] = entry->value[i + 3];
	}
	BARRIER();
	if (ONCE(entry->seq) != seq && PLANTED != 5) /* E3 */
		return COUNT_TORN;
	*value_bytes = bytes;
	request->computed = computed;
	return COUNT_HITS;
}

/* Looks through the bucket for the entry of the request's key, and copies frame and key into scratch. The filter is the bucket's four hashes: a key
 * that is not cached leaves after one cache line. */
INLINE u32 find(struct xdp_md *ctx, const struct config *config, struct request *request, struct scratch *scratch)
{
	u32 at = request->hash & ONCE(config->bucket_mask);
	const struct bucket *bucket = map_lookup(&buckets, &at);
	if (!bucket)
		return COUNT_MISS;
	u64 tag = 1ull << 32 | request->hash;
#pragma clang loop unroll(disable)
	for (u32 way = 0; way < WAYS; way++) {
		if (ONCE(bucket->tag[way]) != tag)
			continue;
		u32 index = at * WAYS + way;
		const struct entry *entry = map_lookup(&entries, &index);
		if (!entry || load(ctx, request, scratch))
			return COUNT_OTHER;
		u64 seq = ONCE(entry->seq); /* E1 */
		BARRIER();
		if (seq & (SEQ_STEP - 1))
			return COUNT_TORN;
		if (!same_key(entry, scratch, request))
			continue; /* another key of the same hash */
		request->index = index;
		request->seq = seq;
		return COUNT_HITS;
	}
	return COUNT_MISS;
}

/* Turns Ethernet, IP and UDP round and writes the frame. After the first call that moves the frame's edge there is no way back. */
INLINE u32 send(struct xdp_md *ctx, const struct request *request, struct scratch *scratch, u32 value_bytes)
{
	u32 key_bytes = request->key_bytes, link = request->link;
	u32 packet = IP + UDP + HEADER + key_bytes + value_bytes;
	int longer = (int)(link + packet) - (int)request->frame_len;
	u8 *mac = link == ETHERNET ? &scratch->link[4] : &scratch->link[0];
	u32 high = AT32(mac, 0);
	u16 low = AT16(mac, 4);
	AT32(mac, 0) = AT32(mac, 6);
	AT16(mac, 4) = AT16(mac, 10);
	AT32(mac, 6) = high;
	AT16(mac, 10) = low;

	u8 *ip = scratch->ip;
	u32 source = AT32(ip, 12);
	AT32(ip, 12) = AT32(ip, 16);
	AT32(ip, 16) = source;
	AT16(ip, 2) = SWAP16(packet);
	AT16(ip, 4) = 0;
	AT16(ip, 6) = SWAP16(0x4000);
	AT8(ip, 8) = 64;
	AT16(ip, 10) = 0;
	u32 check = ip_sum(ip);
	AT16(ip, 10) = ~check;

	u8 *udp = scratch->udp;
	u16 port = AT16(udp, 0);
	AT16(udp, 0) = AT16(udp, 2);
	AT16(udp, 2) = port;
	AT16(udp, 4) = SWAP16(packet - IP);
	AT16(udp, 6) = 0; /* none: ours has its own, and IPv4 allows it */

	if (longer > 0 && adjust_head(ctx, -longer))
		return COUNT_ROOM;
	if (longer < 0 && PLANTED != 7 && adjust_tail(ctx, longer))
		return COUNT_ROOM;

	OPAQUE(key_bytes);
	OPAQUE(value_bytes);
	if (key_bytes > 8 * MAX_KEY_WORDS || value_bytes > 8 * MAX_VALUE_WORDS)
		return COUNT_LOST;
	u32 before = link + IP + UDP + HEADER + key_bytes;
	long error = link == ETHERNET
			     ? store_bytes(ctx, 0, &scratch->link[4], ETHERNET + IP + UDP + HEADER + key_bytes)
			     : store_bytes(ctx, 0, &scratch->link[0], TAGGED + IP + UDP + HEADER + key_bytes);
	if (value_bytes)
		error |= store_bytes(ctx, before, scratch->value, value_bytes);
	return error ? COUNT_LOST : COUNT_HITS;
}

/* One more sight in a cell; how many there are lately. */
INLINE u32 see(u32 *cell, u32 window)
{
	u32 old = ONCE(*cell);
	u32 age = PLANTED == 9 ? 0 : (window - (old >> 8)) & 0xffffff;
	u32 count = age < 8 ? (old & 255) >> age : 0;
	if (count < 255)
		count++;
	*cell = window << 8 | count;
	return count;
}

/* Whether the key was seen so seldom that its request may pass by. */
INLINE int is_seldom(const struct config *config, u32 hash)
{
	u64 mixed = hash * 0x9e3779b97f4a7c15ull;
	u32 at = mixed >> 40 & ONCE(config->filter_mask);
	struct sights *line = map_lookup(&sights, &at);
	if (!line)
		return 0;
	u32 window = ONCE(config->window) & 0xffffff;
	u32 one = mixed >> 36 & (SIGHTS - 1);
	u32 other = one ^ (SIGHTS / 2 | (mixed >> 32 & (SIGHTS / 2 - 1)));
	u32 first = see(&line->cell[one], window);
	u32 second = see(&line->cell[other & (SIGHTS - 1)], window);
	return (first < second ? first : second) < ONCE(config->filter);
}

/* Sends the frame on to the home that the request names. */
INLINE u32 send_home(struct xdp_md *ctx, const u8 *head, struct request *request)
{
	u32 number = AT16(head, WIRE_HOME);
	u32 place = number & (HOMES - 1);
	const struct home *home = map_lookup(&homes, &place);
	if (!home || !home->port || home->number != number)
		return COUNT_STRANDED;
	u8 *data = (u8 *)(u64)ctx->data, *ip = data + ETHERNET, *udp = ip + IP;
	if (udp + UDP > (u8 *)(u64)ctx->data_end || ip[8] <= 1)
		return COUNT_STRANDED;
	u16 port = SWAP16((u16)home->port);
	struct fib fib = {
		.family = AF_INET,
		.l4_protocol = 17,
		.source_port = AT16(udp, 0),
		.port = port,
		.len = request->frame_len - ETHERNET,
		.interface = ctx->ingress_ifindex,
		.tos = ip[1],
	};
	fib.source[0] = AT32(ip, 12);
	fib.address[0] = home->address;
	if (fib_lookup(ctx, &fib, sizeof(fib), 0))
		return COUNT_STRANDED;
	__builtin_memcpy(data, fib.next_mac, 6);
	__builtin_memcpy(data + 6, fib.own_mac, 6);
	if (PLANTED != 10)
		ip[8]--;
	AT32(ip, 16) = home->address;
	AT16(ip, 10) = 0;
	u32 check = ip_sum(ip);
	AT16(ip, 10) = ~check;
	AT16(udp, 2) = port;
	if (PLANTED != 11)
		AT16(udp, 6) = 0; /* as in replies */
	request->out = fib.interface;
	return COUNT_FORWARDED;
}

/* What becomes of a key that is not here. */
INLINE u32 screen(struct xdp_md *ctx, const u8 *head, const struct config *config, struct request *request)
{
	if (!ONCE(config->filter) || request->opcode != OPCODE_GET || request->link != ETHERNET ||
	    !is_seldom(config, request->hash))
		return COUNT_MISS;
	return send_home(ctx, head, request);
}

INLINE u32 serve(struct xdp_md *ctx, const u8 *head, struct config *config, struct request *request)
{
	u32 zero = 0, value_bytes = 0;
	u32 verdict = plain_request(head, config, request);
	if (verdict != COUNT_HITS)
		return verdict;
	struct scratch *scratch = map_lookup(&scratches, &zero);
	if (!scratch)
		return COUNT_OTHER;
	verdict = find(ctx, config, request, scratch);
	if (verdict == COUNT_MISS)
		return screen(ctx, head, config, request);
	struct entry *entry = map_lookup(&entries, &request->index);
	if (verdict != COUNT_HITS || !entry)
		return verdict;
	verdict = request->owns ? own(ctx, entry, config, request, scratch, &value_bytes)
				: answer_from(entry, config, request, scratch, &value_bytes);
	if (verdict != COUNT_HITS)
		return verdict;
	u64 *hit = map_lookup(&hits, &request->index);
	if (hit)
		*hit += 1; /* another CPU's may get lost: they rank entries, they bill nobody */
	return send(ctx, request, scratch, value_bytes);
}

INLINE u32 log2_of(u64 ns)
{
	u32 bits = 0;
#pragma clang loop unroll(full)
	for (u32 step = 16; step; step /= 2)
		if (ns >> step) {
			ns >>= step;
			bits += step;
		}
	return bits & (TIMES - 1);
}

SECTION("xdp") int millrace_box(struct xdp_md *ctx)
{
	u32 zero = 0, cpu = cpu_id();
	struct config *config = map_lookup(&config_map, &zero);
	struct row *row = map_lookup(&rows, &cpu);
	if (!config || !row || !ONCE(config->enabled))
		return XDP_PASS;
	struct request request = {};
	const u8 *head = recognise(ctx, config, &request);
	if (!head) {
		row->count[COUNT_FOREIGN]++;
		return XDP_PASS;
	}
	u32 sample = ONCE(config->sample);
	u64 start = sample && !(row->count[COUNT_DATAGRAMS] & (sample - 1)) ? ktime_ns() : 0;
	row->count[COUNT_DATAGRAMS]++;
	u32 verdict = serve(ctx, head, config, &request);
	row->count[verdict & (COUNTERS - 1)]++;
	if (verdict == COUNT_HITS && request.computed)
		row->count[COUNT_COMPUTED]++;
	if (verdict == COUNT_HITS && request.owns)
		row->count[COUNT_OWNED]++;
	if (start) {
		u32 bits = log2_of(ktime_ns() - start);
		if (verdict == COUNT_HITS)
			row->hit_ns[bits]++;
		else
			row->pass_ns[bits]++;
	}
	if (verdict == COUNT_FORWARDED)
		return redirect(request.out, 0);
	return verdict == COUNT_HITS ? XDP_TX : verdict == COUNT_LOST ? XDP_ABORTED : XDP_PASS;
}

SECTION("license") const char licence[] = "Dual MIT/GPL";
