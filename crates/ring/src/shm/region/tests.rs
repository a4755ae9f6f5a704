use super::*;
use proptest::prelude::*;
use std::thread;

fn pair(len: usize, peers_write: bool) -> (Region, Region) {
    let own = Region::create(len, peers_write).expect("memory");
    let peer = Region::attach(own.lend(peers_write).expect("a descriptor"), peers_write).expect("sound");
    (own, peer)
}

/// Accesses, as bytes of a vector do them.
#[derive(Clone, Debug)]
enum Access {
    Read(u64, usize),
    Write(u64, Vec<u8>),
    Swap(u64, u64),
    Add(u64, u64),
}

fn access(len: u64) -> impl Strategy<Value = Access> {
    let at = 0..len + 20;
    prop_oneof![
        (at.clone(), 0..80usize).prop_map(|(at, len)| Access::Read(at, len)),
        (at.clone(), proptest::collection::vec(any::<u8>(), 0..80))
            .prop_map(|(at, data)| Access::Write(at, data)),
        (at.clone(), any::<u64>()).prop_map(|(at, new)| Access::Swap(at, new)),
        (at, any::<u64>()).prop_map(|(at, add)| Access::Add(at, add)),
    ]
}

/// What a region should do; `None` where it refuses.
fn expect(memory: &mut [u8], access: &Access) -> Option<Vec<u8>> {
    let span = |at: u64, len: usize| at as usize..at as usize + len;
    let word = |memory: &[u8], at: u64| {
        let bytes = at.is_multiple_of(8).then(|| memory.get(span(at, 8)))??;
        Some(u64::from_ne_bytes(bytes.try_into().expect("eight")))
    };
    match access {
        Access::Read(at, len) => memory.get(span(*at, *len)).map(<[u8]>::to_vec),
        Access::Write(at, data) => {
            memory.get_mut(span(*at, data.len()))?.copy_from_slice(data);
            Some(Vec::new())
        }
        Access::Swap(at, new) => {
            let was = word(memory, *at)?;
            // Every other finds what it does not expect.
            if was % 2 == 0 {
                memory[span(*at, 8)].copy_from_slice(&new.to_ne_bytes());
            }
            Some(was.to_ne_bytes().to_vec())
        }
        Access::Add(at, add) => {
            let was = word(memory, *at)?;
            memory[span(*at, 8)].copy_from_slice(&was.wrapping_add(*add).to_ne_bytes());
            Some(was.to_ne_bytes().to_vec())
        }
    }
}

fn perform(region: &Region, access: &Access) -> Option<Vec<u8>> {
    match access {
        Access::Read(at, len) => {
            let mut to = vec![0xEE; *len];
            region.read(*at, &mut to).ok().map(|()| to)
        }
        Access::Write(at, data) => region.write(*at, data).ok().map(|()| Vec::new()),
        Access::Swap(at, new) => {
            let mut word = [0; 8];
            region.read(*at, &mut word).ok()?;
            let was = u64::from_ne_bytes(word);
            let expected = if was.is_multiple_of(2) { was } else { was - 1 };
            region.compare_swap(*at, expected, *new).ok().map(|was| was.to_ne_bytes().to_vec())
        }
        Access::Add(at, add) => region.fetch_add(*at, *add).ok().map(|was| was.to_ne_bytes().to_vec()),
    }
}

proptest! {
    #[test]
    fn every_access_is_that_of_bytes(len in 1..300u64, accesses in proptest::collection::vec(access(300), 1..60)) {
        let (own, peer) = pair(len as usize, true);
        let mut memory = vec![0; len as usize];
        for (at, access) in accesses.iter().enumerate() {
            let region = if at % 2 == 0 { &own } else { &peer };
            prop_assert_eq!(perform(region, access), expect(&mut memory, access), "{:?}", access);
        }
        let mut all = vec![0; len as usize];
        own.read(0, &mut all).expect("all of it");
        prop_assert_eq!(all, memory);
    }
}

#[test]
fn an_aligned_word_is_never_torn_and_neighbours_in_a_word_keep_theirs() {
    let (own, peer) = pair(64, true);
    thread::scope(|scope| {
        // Two write the halves of one word, one writes whole words of one pattern.
        for (at, byte) in [(0u64, 0x11u8), (4, 0x22)] {
            let (own, peer) = (&own, &peer);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let region = if at == 0 { own } else { peer };
                    region.write(at, &[byte; 4]).expect("inside");
                }
            });
        }
        scope.spawn(|| {
            for round in 0..20_000u64 {
                own.write(8, &[round as u8; 8]).expect("inside");
            }
        });
        scope.spawn(|| {
            for _ in 0..20_000 {
                let mut word = [0; 8];
                peer.read(8, &mut word).expect("inside");
                assert_eq!(word, [word[0]; 8], "whole, as it was before or after");
            }
        });
        scope.spawn(|| {
            for _ in 0..20_000 {
                let mut word = [0; 8];
                peer.read(0, &mut word).expect("inside");
                assert!([[0; 4], [0x11; 4]].contains(&word[..4].try_into().expect("four")), "{word:?}");
                assert!([[0; 4], [0x22; 4]].contains(&word[4..].try_into().expect("four")), "{word:?}");
            }
        });
    });
    let mut word = [0; 8];
    own.read(0, &mut word).expect("inside");
    assert_eq!(word, [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22]);
}

#[test]
fn counters_of_two_processes_lose_nothing() {
    let (own, peer) = pair(16, true);
    thread::scope(|scope| {
        for region in [&own, &peer] {
            scope.spawn(move || (0..50_000).for_each(|_| _ = region.fetch_add(8, 1).expect("inside")));
        }
    });
    assert_eq!(own.compare_swap(8, 100_000, 1), Ok(100_000));
    assert_eq!(peer.compare_swap(8, 5, 7), Ok(1), "not what was expected: it stays");
    assert_eq!(peer.fetch_add(8, u64::MAX), Ok(1));
    assert_eq!((peer.fetch_add(3, 1), peer.compare_swap(16, 0, 1)), (Err(OutOfBounds), Err(OutOfBounds)));
}

#[test]
fn what_is_lent_for_reading_cannot_be_written() {
    let own = Region::create(100, true).expect("memory");
    let reads = Region::attach(own.lend(false).expect("a descriptor"), false).expect("sound");
    own.write(0, b"told").expect("inside");
    let mut seen = [0; 4];
    reads.read(0, &mut seen).expect("inside");
    assert_eq!(&seen, b"told");
    assert!(Region::attach(own.lend(false).expect("a descriptor"), true).is_err(), "it is for reading");
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reads.write(0, b"x")));
    assert!(refused.is_err());
    // Where nobody may write, not even somebody who has a descriptor to write by.
    let sealed = Region::create(100, false).expect("memory");
    assert!(sealed.lend(true).is_err());
    assert!(Region::attach(sealed.as_fd().try_clone_to_owned().expect("another"), true).is_err());
    sealed.write(0, b"its owner may").expect("inside");
}

#[test]
fn what_is_revoked_shows_nothing_any_more() {
    for peers_write in [true, false] {
        let (own, peer) = pair(10_000, peers_write);
        own.write(5000, b"secret").expect("inside");
        assert_eq!(peer.state(), State::Open);
        own.revoke().expect("revoked");
        assert_eq!(peer.state(), State::Revoked);
        let mut seen = [1; 6];
        peer.read(5000, &mut seen).expect("still mapped");
        assert_eq!(seen, [0; 6]);
    }
}

#[test]
fn strangers_descriptors_are_no_regions() {
    let plain =
        memfd_create("millrace-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
    ftruncate(&plain, 8192).expect("sized");
    let twin = || plain.try_clone().expect("another");
    assert!(matches!(Region::attach(twin(), true), Err(AttachError::NotSealed)));
    fcntl_add_seals(&plain, SealFlags::SHRINK).expect("sealed");
    assert!(matches!(Region::attach(twin(), true), Err(AttachError::NotASegment)));
    // A header that says more than there is.
    let liar = Region {
        memory: Mapping::shared(&plain, 8192).expect("mapped"),
        len: 5000,
        file: twin(),
        is_writable: true,
        is_file: false,
    };
    liar.write_header();
    assert!(matches!(Region::attach(twin(), true), Err(AttachError::BadGeometry)));
    assert!(Region::create(0, true).is_err() && Region::create(REGION_MAX + 1, true).is_err());
}

#[test]
fn a_region_in_a_file_has_what_it_had() {
    // Of one file system and of another: files in memory have seals.
    let shm = tempfile::tempdir_in("/dev/shm");
    [tempfile::tempdir(), shm].into_iter().flatten().for_each(|folder| has_what_it_had(&folder));
}

fn has_what_it_had(folder: &tempfile::TempDir) {
    let path = folder.path().join("region");
    let region = Region::open_file(&path, 5000).expect("made");
    region.write(4990, b"persistent").expect("inside");
    region.sync().expect("on the disk");
    let second = Region::open_file(&path, 5000).expect_err("somebody has it");
    assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
    assert!(region.lend(true).expect_err("through its owner alone").to_string().contains("owner"));
    drop(region);
    let again = Region::open_file(&path, 5000).expect("there");
    let mut seen = [0; 10];
    again.read(4990, &mut seen).expect("inside");
    assert_eq!(&seen, b"persistent");
    drop(again);
    assert!(Region::open_file(&path, 4000).is_err(), "of another length");
    std::fs::write(&path, vec![7; HEADER + 5000]).expect("written");
    assert!(Region::open_file(&path, 5000).is_err(), "something else");
}
