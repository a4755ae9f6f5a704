// The C++ side of the comparison of messages that are a few large fields: builds, encodes and decodes them when it is told to.
//
//   large MESSAGES    MESSAGES is a file: length (uint32, little-endian) and bytes of each encoded message
//
// Then it obeys lines from its standard input, and answers each with one line:
//
//   WORK COUNT    does WORK for COUNT messages, going on where that work ended: nanoseconds of this thread's processor time
//   WORK check    does it once for each message: the FNV-1a hash of all that was encoded, or the sum of all that was read
//
// What the works are stands at each of them below.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <time.h>
#include <vector>

#include "large.pb.h"

namespace {

struct Source {
  std::string encoded, name, text, body, digest;
};

/// Where all works encode to.
struct Output {
  std::vector<uint8_t> bytes;
  size_t length = 0;

  void encode(const large::Record &record) {
    length = record.ByteSizeLong();
    if (bytes.size() < length) bytes.resize(length);
    record.SerializeWithCachedSizesToArray(bytes.data());
  }
};

/// What handing a text on would touch: its length and its ends.
uint64_t touch(const std::string &text) {
  if (text.empty()) return 0;
  return text.size() + uint8_t(text.front()) + uint8_t(text.back());
}

uint64_t read(const large::Record &record) {
  return touch(record.name()) + touch(record.text()) + touch(record.body()) + touch(record.digest());
}

void copy_into(large::Record &record, const Source &source) {
  record.set_name(source.name);
  record.set_text(source.text);
  record.set_body(source.body);
  record.set_digest(source.digest);
}

void parse(large::Record &record, const Source &source) {
  if (!record.ParseFromArray(source.encoded.data(), int(source.encoded.size()))) {
    std::cerr << "a message that prost wrote cannot be parsed\n";
    std::exit(1);
  }
}

struct State {
  std::vector<Source> sources;
  std::vector<large::Record> records;
  large::Record reused_record;
  Output output;
  uint64_t sum = 0;
};

/// A message that was built before.
void encode(State &state, size_t at) { state.output.encode(state.records[at]); }

/// A new message, by copying.
void build_fresh(State &state, size_t at) {
  large::Record record;
  copy_into(record, state.sources[at]);
  state.output.encode(record);
}

/// A message that keeps the memory of its strings from the message before, by copying.
void build_reused(State &state, size_t at) {
  state.reused_record.Clear();
  copy_into(state.reused_record, state.sources[at]);
  state.output.encode(state.reused_record);
}

/// Decodes into a new message and reads it.
void decode_fresh(State &state, size_t at) {
  large::Record record;
  parse(record, state.sources[at]);
  state.sum += read(record);
}

/// Decodes into a message that keeps the memory of its strings, and reads it.
void decode_reused(State &state, size_t at) {
  parse(state.reused_record, state.sources[at]);
  state.sum += read(state.reused_record);
}

struct Work {
  const char *name;
  void (*once)(State &, size_t);
  bool encodes;
  size_t next;
};

Work works[] = {
    {"encode", encode, true, 0},
    {"build-fresh", build_fresh, true, 0},
    {"build-reused", build_reused, true, 0},
    {"decode-fresh", decode_fresh, false, 0},
    {"decode-reused", decode_reused, false, 0},
};

int64_t processor_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int64_t time_of(Work &work, State &state, size_t count) {
  const size_t messages = state.sources.size();
  size_t at = work.next;
  const int64_t start = processor_ns();
  for (size_t turn = 0; turn < count; ++turn) {
    work.once(state, at);
    at = at + 1 == messages ? 0 : at + 1;
  }
  const int64_t ns = processor_ns() - start;
  work.next = at;
  return ns;
}

uint64_t check(Work &work, State &state) {
  uint64_t hash = 0xcbf29ce484222325;
  state.sum = 0;
  for (size_t at = 0; at < state.sources.size(); ++at) {
    work.once(state, at);
    for (size_t byte = 0; work.encodes && byte < state.output.length; ++byte) {
      hash = (hash ^ state.output.bytes[byte]) * 0x100000001b3;
    }
  }
  return work.encodes ? hash : state.sum;
}

bool load(const char *path, State &state) {
  std::ifstream file(path, std::ios::binary);
  uint32_t length;
  while (file.read(reinterpret_cast<char *>(&length), sizeof length)) {
    Source source;
    source.encoded.resize(length);
    if (!file.read(&source.encoded[0], length)) return false;
    large::Record record;
    parse(record, source);
    source.name = record.name();
    source.text = record.text();
    source.body = record.body();
    source.digest = record.digest();
    state.sources.push_back(std::move(source));
  }
  // Built by copying, one after the other, as the works that build do.
  state.records.resize(state.sources.size());
  for (size_t at = 0; at < state.sources.size(); ++at) copy_into(state.records[at], state.sources[at]);
  return !state.sources.empty();
}

} // namespace

int main(int count, char **arguments) {
  State state;
  if (count != 2 || !load(arguments[1], state)) {
    std::cerr << "give a file of messages, each with its length before it\n";
    return 1;
  }
  std::string name, what;
  while (std::cin >> name >> what) {
    Work *found = nullptr;
    for (Work &work : works) {
      if (name == work.name) found = &work;
    }
    if (!found) {
      std::cerr << "there is no work `" << name << "`\n";
      return 1;
    }
    if (what == "check") {
      std::cout << check(*found, state) << std::endl;
    } else {
      std::cout << time_of(*found, state, std::stoull(what)) << std::endl;
    }
  }
}
