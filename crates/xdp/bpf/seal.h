/* Proofs of who wrote a packet (docs/wire.md, "Who may say what"): SipHash-2-4 with 128 bits of output over header and key, what the proof
 * says, and the receiver, each after its length. The header and the key with its filler lie in a row in `scratch`.
 *
 * Cost: 2 rounds for each 8 bytes, some 70 rounds for a short key. */
#pragma once
#include "bpf.h"
#include "maps.h"

#define PROOF 32
#define PROOF_WORDS (PROOF / 8)
#define ROLE_CLIENT 1ull
#define ROLE_BOX 2ull

struct sip {
	u64 v0, v1, v2, v3;
};

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

INLINE void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = ROTATE(s->v1, 13) ^ s->v0;
	s->v0 = ROTATE(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = ROTATE(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = ROTATE(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = ROTATE(s->v1, 17) ^ s->v2;
	s->v2 = ROTATE(s->v2, 32);
}

INLINE void sip_word(struct sip *s, u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	sip_round(s);
	s->v0 ^= word;
}

INLINE u64 sip_end(struct sip *s)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 4; i++)
		sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* The tag of what is in `scratch`, with a proof that begins with `said`, for a receiver. */
INLINE void tag_of(const struct config *config, const struct scratch *scratch, u32 key_bytes, const u64 *said,
		   u64 to, u64 to_client, u64 *tag)
{
	const u8 *packet = (const u8 *)scratch + __builtin_offsetof(struct scratch, head);
	u64 k0 = ONCE(config->seal_key[0]), k1 = ONCE(config->seal_key[1]);
	struct sip s = {
		k0 ^ 0x736f6d6570736575ull,
		k1 ^ 0x646f72616e646f6dull ^ 0xee,
		k0 ^ 0x6c7967656e657261ull,
		k1 ^ 0x7465646279746573ull,
	};
	u32 words = (HEADER + key_bytes) / 8;
	u64 len = 8 * words;
	sip_word(&s, len);
	OPAQUE(words);
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < HEADER / 8 + MAX_KEY_WORDS; i++) {
		if (i >= words)
			break;
		sip_word(&s, *(const u64 *)(packet + 8 * i));
	}
	sip_word(&s, 16);
	sip_word(&s, said[0]);
	sip_word(&s, said[1]);
	sip_word(&s, 16);
	sip_word(&s, to);
	sip_word(&s, to_client);
	sip_word(&s, (len + 3 * 8 + 2 * 16) << 56);
	s.v2 ^= 0xee;
	tag[0] = sip_end(&s);
	s.v1 ^= 0xdd;
	tag[1] = sip_end(&s);
}
