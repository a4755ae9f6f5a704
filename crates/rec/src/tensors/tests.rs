use super::*;
use proptest::prelude::*;

/// A file of this header and so many bytes of data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn refused(header: &str, data: usize) -> String {
    let error = Tensors::from_bytes(file(header, &vec![0; data])).err();
    error.map_or_else(|| panic!("{header} is accepted"), |error| error.to_string())
}

#[test]
fn hostile_headers_are_refused_with_the_reason() {
    let says = |header: &str, data: usize, what: &str| {
        let said = refused(header, data);
        assert!(said.contains(what), "{header}: {said}");
    };
    let one = |entry: &str| format!(r#"{{"a":{{{entry}}}}}"#);
    says(&one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 12, "end at 8, the data at 12");
    says(&one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 4, "within 4 bytes");
    says(&one(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), 8, "its shape [3]");
    says(&one(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), 8, "expected 0");
    says(&one(r#""dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]"#), 0, "its shape");
    says(&one(r#""dtype":"X","shape":[2],"data_offsets":[0,8]"#), 8, "not known");
    says(&one(r#""dtype":"F32","shape":[-2],"data_offsets":[0,8]"#), 8, "tensor \"a\"");
    says(&one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1"#), 8, "unknown field");
    let two = |from: u32, to: u32, name: &str| {
        format!(
            r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"{name}":{{"dtype":"F32","shape":[2],"data_offsets":[{from},{to}]}}}}"#
        )
    };
    says(&two(4, 12, "b"), 12, "expected 8");
    says(&two(12, 20, "b"), 20, "expected 8");
    says(&two(8, 16, "a"), 16, "is there twice");
    says("[]", 0, "header is wrong");
    says(&"[".repeat(5000), 0, "header is wrong");
}

#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let error = |bytes: Vec<u8>| Tensors::from_bytes(bytes).err().expect("refused");
    assert!(matches!(error(vec![0; 7]), TensorsError::Short(7)));
    assert!(matches!(error(u64::MAX.to_le_bytes().to_vec()), TensorsError::HeaderLength(u64::MAX)));
    let mut bytes = file("{}", &[]);
    bytes[0] = 3;
    assert!(matches!(error(bytes), TensorsError::HeaderLength(3)));
    let mut long = vec![b' '; MAX_HEADER as usize + 9];
    long[..8].copy_from_slice(&(MAX_HEADER + 1).to_le_bytes());
    assert!(matches!(error(long), TensorsError::HeaderLength(_)));
}

#[test]
fn halves_are_read_as_singles_and_others_refused() {
    let header = r#"{"__metadata__":{"format":"pt"},"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
        "b":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},"i":{"dtype":"I64","shape":[],"data_offsets":[8,16]},
        "n":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}}"#;
    let mut data = Vec::new();
    [1.5f32, -2.0].iter().for_each(|&x| data.extend(half::f16::from_f32(x).to_le_bytes()));
    [0.25f32, 1e30].iter().for_each(|&x| data.extend(half::bf16::from_f32(x).to_le_bytes()));
    data.extend([0; 8]);
    data.extend(f32::NAN.to_le_bytes());
    let tensors = Tensors::from_bytes(file(header, &data)).expect("tensors");
    let numbers = |name: &str| tensors.numbers(tensors.find(name).expect("there"));
    assert_eq!(numbers("h").expect("numbers"), [1.5, -2.0]);
    let b = numbers("b").expect("numbers");
    assert!(b[0] == 0.25 && (b[1] / 1e30 - 1.0).abs() < 0.01);
    assert!(numbers("i").expect_err("refused").to_string().contains("expected F32, F16 or BF16"));
    assert!(numbers("n").expect_err("refused").to_string().contains("not finite"));
    assert!(tensors.read(tensors.find("h").expect("there"), 1, &mut [0.0; 2]).is_err());
    assert!(tensors.find("x").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(shapes in prop::collection::vec((0usize..300, 0usize..200), 0..5), from in 0usize..100) {
        let value = |tensor: usize, at: usize| (tensor * 1000 + at) as f32;
        let mut bytes = Vec::new();
        let pieces = shapes.iter().enumerate().map(|(nth, &(rows, dim))| {
            let mut at = 0;
            let some: Pieces = Box::new(move |out| {
                let end = (at + 777).min(rows * dim);
                out.extend((at..end).map(|at| value(nth, at)));
                at = end;
            });
            (format!("t{nth}"), vec![rows, dim], some)
        });
        write(&mut bytes, pieces.collect()).expect("memory does not fail");
        let tensors = Tensors::from_bytes(bytes).expect("ours");
        prop_assert_eq!(tensors.iter().count(), shapes.len());
        for (nth, &(rows, dim)) in shapes.iter().enumerate() {
            let tensor = tensors.find(&format!("t{nth}")).expect("it was written");
            prop_assert_eq!(&tensor.shape, &vec![rows, dim]);
            let want: Vec<f32> = (0..rows * dim).map(|at| value(nth, at)).collect();
            prop_assert_eq!(&tensors.numbers(tensor).expect("numbers"), &want);
            let from = from.min(want.len());
            let mut part = vec![0.0; want.len() - from];
            tensors.read(tensor, from, &mut part).expect("numbers");
            prop_assert_eq!(&part[..], &want[from..]);
        }
    }
}
