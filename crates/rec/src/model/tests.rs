mod planned;

use super::load::build;
use super::*;
use crate::lists::Lists;
use crate::manifest::{Manifest, TableEntry};
use crate::tensors::{self, Pieces, Tensors};
use base::Prng;
use proptest::prelude::*;
use std::path::PathBuf;
use tempfile::TempDir;

const POOLINGS: [Pooling; 4] = [Pooling::Sum, Pooling::Mean, Pooling::Max, Pooling::Min];

fn shape(seed: u64, tables: usize, dim: usize, interaction: Interaction) -> Synth {
    Synth {
        seed,
        tables,
        rows: 50,
        dim,
        interaction,
        dense: 5,
        bottom: vec![9],
        top: vec![20, 2],
        ..Synth::default()
    }
}

/// Bags of a batch for each table, and its dense features.
struct Queries {
    dense: Vec<f32>,
    tables: Vec<Owned>,
}

/// Values, offsets and weights.
type Owned = (Vec<u32>, Vec<u32>, Option<Vec<f32>>);

impl Queries {
    fn random(rng: &mut Prng, model: &Model, len: usize) -> Queries {
        let mut some = |most: u64| rng.below(most);
        let tables = model.tables().iter().map(|table| {
            let mut offsets = vec![0];
            let mut values = Vec::new();
            for _ in 0..len {
                (0..some(6)).for_each(|_| values.push(some(table.rows().into()) as u32));
                offsets.push(values.len() as u32);
            }
            let weights =
                (some(2) == 0).then(|| values.iter().map(|_| some(100) as f32 / 50.0 - 1.0).collect());
            (values, offsets, weights)
        });
        let tables = tables.collect();
        Queries { dense: (0..len * model.dense()).map(|_| some(200) as f32 / 100.0 - 1.0).collect(), tables }
    }

    fn infer(&self, model: &Model, len: usize) -> Result<Vec<f32>, InputError> {
        let bags: Vec<Bags<'_>> =
            self.tables.iter().map(|(v, o, w)| Bags::new(v, o, w.as_deref()).expect("bags")).collect();
        let (mut scratch, mut scores) = (Scratch::default(), Vec::new());
        // Twice: what the first left behind must not matter.
        for _ in 0..2 {
            model.infer(
                &Batch { len, dense: &self.dense, bags: &bags },
                Tuning::default(),
                &mut scratch,
                &mut scores,
            )?;
        }
        Ok(scores)
    }

    /// By definition, one query after another.
    fn by_definition(&self, model: &Model, len: usize) -> Vec<f32> {
        let through = |mlp: &Mlp, x: Vec<f32>| mlp.layers().fold(x, |x, layer| layer.apply(&x));
        let dim = model.bottom.outputs();
        let mut scores = Vec::new();
        for query in 0..len {
            let mut vectors =
                vec![through(&model.bottom, self.dense[query * model.dense()..][..model.dense()].to_vec())];
            for (sparse, (values, offsets, weights)) in model.tables.iter().zip(&self.tables) {
                let span = offsets[query] as usize..offsets[query + 1] as usize;
                let mut pooled: Option<Vec<f32>> = None;
                let mut row = vec![0.0; dim];
                for at in span.clone() {
                    sparse.row(values[at], &mut row);
                    let is_sum = matches!(sparse.pooling, Pooling::Sum | Pooling::Mean);
                    let weight = weights.as_ref().filter(|_| is_sum).map_or(1.0, |weights| weights[at]);
                    let weighted = row.iter().map(|x| x * weight);
                    pooled = Some(match (&pooled, sparse.pooling) {
                        (None, _) => weighted.collect(),
                        (Some(have), Pooling::Max) => {
                            have.iter().zip(weighted).map(|(a, b)| a.max(b)).collect()
                        }
                        (Some(have), Pooling::Min) => {
                            have.iter().zip(weighted).map(|(a, b)| a.min(b)).collect()
                        }
                        (Some(have), _) => have.iter().zip(weighted).map(|(a, b)| a + b).collect(),
                    });
                }
                let mut pooled = pooled.unwrap_or_else(|| vec![0.0; dim]);
                if sparse.pooling == Pooling::Mean {
                    pooled.iter_mut().for_each(|x| *x /= span.len().max(1) as f32);
                }
                vectors.push(pooled);
            }
            let mut x = vectors[0].clone();
            match model.interaction {
                Interaction::Concat => vectors[1..].iter().for_each(|v| x.extend(v)),
                Interaction::Dot => {
                    for i in 1..vectors.len() {
                        x.extend(
                            (0..i)
                                .map(|j| vectors[i].iter().zip(&vectors[j]).map(|(a, b)| a * b).sum::<f32>()),
                        );
                    }
                }
            }
            scores.extend(through(&model.top, x));
        }
        scores
    }
}

fn is_close(a: &[f32], b: &[f32], most: f32) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= most)
}

fn tensors_of(model: &Model) -> Tensors {
    let mut bytes = Vec::new();
    model.write_tensors(&mut bytes).expect("memory does not fail");
    Tensors::from_bytes(bytes).expect("ours")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_model_infers_what_its_definition_says_also_after_writing_and_loading(
        seed: u64, tables in 0usize..9, dim in 1usize..20, is_dot: bool, len in 0usize..10
    ) {
        let interaction = if is_dot { Interaction::Dot } else { Interaction::Concat };
        let mut model = Model::synth(&shape(seed, tables, dim * 2, interaction)).expect("memory");
        let mut rng = Prng::new(seed);
        model.tables.iter_mut().for_each(|table| table.pooling = POOLINGS[rng.below(4) as usize]);
        let queries = Queries::random(&mut rng, &model, len);
        let want = queries.by_definition(&model, len);
        let have = queries.infer(&model, len).expect("a batch of its own");
        prop_assert!(is_close(&have, &want, 1e-5), "{have:?} for {want:?}");

        let tensors = tensors_of(&model);
        let manifest = Manifest::parse(model.manifest().to_json().as_bytes()).expect("ours");
        let again = build(&manifest, &tensors, &LoadOptions::default()).expect("ours");
        prop_assert_eq!(queries.infer(&again, len).expect("the same"), have);
        prop_assert_eq!(again.manifest(), manifest.clone());
        prop_assert!(again.assumed.is_empty());
        for (format, most) in [(RowFormat::F16, 2e-3), (RowFormat::Int8, 1e-2), (RowFormat::Int4, 0.15)] {
            let options = LoadOptions { format: Some(format), ..LoadOptions::default() };
            let smaller = build(&manifest, &tensors, &options).expect("ours");
            prop_assert!(smaller.tables().iter().all(|table| table.format() == format));
            prop_assert!(is_close(&queries.infer(&smaller, len).expect("the same"), &want, most), "{format}");
        }
    }

    #[test]
    fn torchrec_s_names_and_order_of_pairs_give_the_same(seed: u64, tables in 1usize..13, len in 1usize..4) {
        let model = Model::synth(&shape(seed, tables, 4, Interaction::Dot)).expect("memory");
        let queries = Queries::random(&mut Prng::new(seed), &model, len);
        let mut bytes = Vec::new();
        tensors::write(&mut bytes, as_torchrec(&model)).expect("memory does not fail");
        let tensors = Tensors::from_bytes(bytes).expect("ours");
        let loaded = build(&Manifest { sigmoid: Some(true), ..Manifest::default() }, &tensors, &LoadOptions::default());
        let loaded = loaded.expect("a model");
        let (have, want) = (queries.infer(&loaded, len).expect("scores"), queries.infer(&model, len).expect("scores"));
        prop_assert!(is_close(&have, &want, 1e-5), "{have:?} for {want:?}");
    }
}

/// The model's tensors as TorchRec would have them.
fn as_torchrec(model: &Model) -> Vec<(String, Vec<usize>, Pieces<'_>)> {
    let mut all: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    let vectors = model.tables.len() + 1;
    let dim = model.bottom.outputs();
    for (at, table) in model.tables.iter().enumerate() {
        let mut numbers = vec![0.0; table.rows() as usize * dim];
        (0..).zip(numbers.chunks_exact_mut(dim)).for_each(|(at, row)| table.row(at, row));
        let name = format!("sparse_arch.embedding_bag_collection.embedding_bags.t_{at}.weight");
        all.push((name, vec![table.rows() as usize, dim], numbers));
    }
    let count = model.top.layers().count();
    let bottom =
        model.bottom.layers().enumerate().map(|(at, l)| (format!("dense_arch.model._mlp.{at}._linear"), l));
    let top = model.top.layers().enumerate().map(|(at, mut layer)| {
        if at == 0 {
            // Columns from the order of the reference to torch.triu_indices'.
            let lower: Vec<_> = (1..vectors).flat_map(|i| (0..i).map(move |j| (j, i))).collect();
            let upper = (0..vectors).flat_map(|i| (i + 1..vectors).map(move |j| (i, j)));
            let from: Vec<usize> =
                upper.map(|pair| lower.iter().position(|&p| p == pair).expect("a pair")).collect();
            for row in layer.weight.chunks_exact_mut(layer.inputs) {
                let before = row.to_vec();
                row[dim..].iter_mut().zip(&from).for_each(|(w, from)| *w = before[dim + from]);
            }
        }
        let last = "over_arch.model.1".to_owned();
        (if at + 1 == count { last } else { format!("over_arch.model.0._mlp.{at}._linear") }, layer)
    });
    for (name, layer) in bottom.chain(top) {
        all.push((format!("{name}.weight"), vec![layer.bias.len(), layer.inputs], layer.weight));
        all.push((format!("{name}.bias"), vec![layer.bias.len()], layer.bias));
    }
    let piece = |mut numbers: Vec<f32>| -> Pieces<'static> { Box::new(move |out| out.append(&mut numbers)) };
    all.into_iter().map(|(name, shape, numbers)| (name, shape, piece(numbers))).collect()
}

/// A file of these tensors, all ones.
fn ones(tensors: &[(&str, &[usize])]) -> Tensors {
    let piece = |shape: &[usize]| -> Pieces<'static> {
        let mut numbers = vec![1.0; shape.iter().product()];
        Box::new(move |out| out.append(&mut numbers))
    };
    let tensors = tensors.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec(), piece(shape)));
    let mut bytes = Vec::new();
    tensors::write(&mut bytes, tensors.collect()).expect("memory does not fail");
    Tensors::from_bytes(bytes).expect("ours")
}

const SMALL: [(&str, &[usize]); 6] = [
    ("emb_l.0.weight", &[10, 3]),
    ("emb_l.1.weight", &[20, 3]),
    ("bot_l.0.weight", &[3, 2]),
    ("bot_l.0.bias", &[3]),
    ("top_l.0.weight", &[1, 6]),
    ("top_l.0.bias", &[1]),
];

#[test]
fn what_no_manifest_says_is_supposed_and_told() {
    let model = build(&Manifest::default(), &ones(&SMALL), &LoadOptions::default()).expect("a model");
    assert_eq!((model.dense(), model.outputs(), model.interaction()), (2, 1, Interaction::Dot));
    assert_eq!(model.tables().iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["t0", "t1"]);
    let told = model.assumed.join("\n");
    for what in ["relu", "sigmoid at the end", "t0, t1", "interaction dot", "pairs lower"] {
        assert!(told.contains(what), "{what}: {told}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_named_with_what_was_expected() {
    let says = |change: &[(&str, Option<&'static [usize]>)], words: &[&str]| {
        let mut tensors = SMALL.to_vec();
        for &(name, shape) in change {
            tensors.retain(|tensor| tensor.0 != name);
            tensors.extend(shape.map(|shape| (name, shape)));
        }
        let error = build(&Manifest::default(), &ones(&tensors), &LoadOptions::default()).err();
        let said = error.map_or_else(|| panic!("{change:?} is accepted"), |error| error.to_string());
        words.iter().for_each(|word| assert!(said.contains(word), "{change:?}: {said}"));
    };
    says(&[("emb_l.1.weight", Some(&[20, 4]))], &["emb_l.1.weight", "[20, 4]", "rows and 3"]);
    says(&[("emb_l.1.weight", Some(&[0, 3]))], &["emb_l.1.weight", "between 1 and"]);
    says(&[("emb_l.1.weight", Some(&[60]))], &["emb_l.1.weight", "two dimensions"]);
    says(&[("emb_l.0.weight", None)], &["emb_l.0.weight", "is missing"]);
    says(&[("bot_l.0.bias", None)], &["bot_l.0.weight", "stands alone"]);
    says(&[("bot_l.0.bias", Some(&[2]))], &["bot_l.0.bias", "[3]"]);
    says(&[("bot_l.0.weight", None), ("bot_l.0.bias", None)], &["bot_l.0.weight", "missing"]);
    says(&[("top_l.0.weight", Some(&[1, 7]))], &["top_l.0.weight", "7 inputs", "6 for dot or 9 for concat"]);
    says(&[("top_l.2.weight", Some(&[1, 2])), ("top_l.2.bias", Some(&[1]))], &["top_l.2.weight", "[1, 1]"]);
    says(&[("v_W_l.0", Some(&[10]))], &["v_W_l.0", "no table and no layer"]);
    says(&[("x.emb_l.0.weight", Some(&[10, 3]))], &["emb_l.0.weight", "is the table of"]);
    says(&[("x.top_l.0.bias", Some(&[1]))], &["top_l.0.bias", "two names"]);
}

#[test]
fn a_manifest_that_does_not_fit_is_refused() {
    let says = |json: &str, word: &str| {
        let built = Manifest::parse(json.as_bytes())
            .map_err(LoadError::Manifest)
            .and_then(|manifest| build(&manifest, &ones(&SMALL), &LoadOptions::default()));
        let said = built.err().map_or_else(|| panic!("{json} is accepted"), |error| error.to_string());
        assert!(said.contains(word), "{json}: {said}");
    };
    says("{", "manifest");
    says(r#"{"dence": 2}"#, "unknown field `dence`");
    says(r#"{"dense": 3}"#, "dense is 3");
    says(r#"{"interaction": "concat"}"#, "says concat");
    says(r#"{"interaction": "sum"}"#, "unknown variant");
    says(r#"{"tables": [{"name": "a"}]}"#, "1 entries");
    says(r#"{"tables": [{"name": "a"}, {"name": "a"}]}"#, "one name");
    says(r#"{"tables": [{"name": "a"}, {"name": "b", "tensor": "emb_l.0.weight"}]}"#, "one tensor");
    says(r#"{"tables": [{"name": "a"}, {"name": "b", "tensor": "c"}]}"#, "\"c\" is missing");
    says(r#"{"tables": [{"name": "a", "rows": 11}, {"name": "b"}]}"#, "rows 11");
    says(r#"{"tables": [{"name": "a", "dim": 2}, {"name": "b"}]}"#, "dim 2");
    says(r#"{"tables": [{"name": "a", "format": "int2"}, {"name": "b"}]}"#, "int2");
    says(r#"{"tables": [{"name": "a", "format": "int4"}, {"name": "b"}]}"#, "even");
    says(r#"{"tables": [{"name": "a", "pooling": "median"}, {"name": "b"}]}"#, "median");
    says(r#"{"activations": {"bottom": [], "top": []}}"#, "activations.bottom has 0");
    says(
        r#"{"sigmoid": false, "activations": {"bottom": ["relu"], "top": ["sigmoid"]}}"#,
        "sigmoid is false",
    );
    let entry = |name: &str, tensor: &str| TableEntry {
        name: name.to_owned(),
        tensor: Some(tensor.to_owned()),
        ..TableEntry::default()
    };
    let tables = Some(vec![entry("b", "emb_l.1.weight"), entry("a", "emb_l.0.weight")]);
    let manifest = Manifest { tables, ..Manifest::default() };
    let model = build(&manifest, &ones(&SMALL), &LoadOptions::default()).expect("a model");
    assert_eq!(model.tables().iter().map(Sparse::rows).collect::<Vec<_>>(), [20, 10]);
}

/// What loading takes at the place where a bound stops it.
fn refused_at(max_bytes: u64, load: impl Fn(u64) -> Result<Model, LoadError>) -> Option<u64> {
    match load(max_bytes) {
        Ok(_) => None,
        Err(LoadError::TooLarge(bytes, most)) if most == max_bytes && bytes > most => Some(bytes),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_model_takes_no_more_than_it_may() {
    let small = |format| {
        move |max_bytes| {
            let options = LoadOptions { max_bytes: Some(max_bytes), format, ..LoadOptions::default() };
            build(&Manifest::default(), &ones(&SMALL), &options)
        }
    };
    // 16 numbers of layers, each read and in a panel; 30 rows of 3 numbers.
    assert_eq!(refused_at(127, small(None)), Some(128), "nothing was read before");
    assert_eq!(refused_at(128 + 359, small(None)), Some(128 + 360), "no row was read before");
    assert_eq!(refused_at(128 + 360, small(None)), None);
    assert_eq!(refused_at(128 + 329, small(Some(RowFormat::Int8))), Some(128 + 30 * 11), "by its own format");
    assert_eq!(refused_at(128 + 330, small(Some(RowFormat::Int8))), None);
}

#[test]
fn a_model_that_is_written_is_loaded_from_its_folder_or_file() {
    let dir = TempDir::with_prefix("millrace-").expect("a folder");
    let dir = dir.path();
    let mut model = Model::synth(&shape(3, 2, 4, Interaction::Dot)).expect("memory");
    model.name = "ads".to_owned();
    model.write(dir).expect("written");
    let queries = Queries::random(&mut Prng::new(3), &model, 4);
    let want = queries.infer(&model, 4).expect("scores");
    let options = LoadOptions::default();
    for path in [dir.to_owned(), dir.join("model.safetensors")] {
        let again = load(&path, &options).expect("ours");
        assert_eq!((again.name.as_str(), queries.infer(&again, 4)), ("ads", Ok(want.clone())));
    }
    std::fs::remove_file(dir.join("model.json")).expect("there");
    let named = load(dir, &options).expect("without a manifest").name;
    assert!(named.starts_with("millrace-"), "{named}");
    let mut bytes = std::fs::read(dir.join("model.safetensors")).expect("there");
    bytes.pop();
    std::fs::write(dir.join("model.safetensors"), bytes).expect("written");
    assert!(matches!(load(dir, &options), Err(LoadError::Tensors(_))));
    std::fs::remove_file(dir.join("model.safetensors")).expect("there");
    assert!(matches!(load(dir, &options), Err(LoadError::Io(..))));
}

#[test]
fn stages_are_told_in_order_and_a_bad_batch_has_none() {
    let model = Model::synth(&shape(3, 1, 4, Interaction::Dot)).expect("memory");
    let bags = [Bags::new(&[7, 50], &[0, 2], None).expect("bags")];
    let (mut scratch, mut scores, mut told) = (Scratch::default(), vec![9.0], Vec::new());
    let mut infer = |dense: &[f32], bags: &[Bags<'_>]| {
        told.clear();
        let batch = Batch { len: 1, dense, bags };
        let result = model
            .infer_staged(&batch, Tuning::default(), &mut scratch, &mut scores, |stage| told.push(stage));
        (result, told.clone())
    };
    let error = InputError::Bags(0, BagsError::Id { at: 1, id: 50, rows: 50 });
    assert_eq!(infer(&[0.0; 5], &bags), (Err(error), Vec::new()));
    assert_eq!(infer(&[0.0; 4], &bags).0, Err(InputError::Dense(5, 4)));
    assert_eq!(infer(&[0.0, 0.0, f32::INFINITY, 0.0, 0.0], &bags).0, Err(InputError::NotFinite(2)));
    assert_eq!(infer(&[0.0; 5], &[]).0, Err(InputError::Tables(1, 0)));
    let bags = [Bags::new(&[7, 49], &[0, 2], None).expect("bags")];
    let all = vec![Stage::Reduce, Stage::Bottom, Stage::Interact, Stage::Top];
    assert_eq!(infer(&[0.0; 5], &bags), (Ok(()), all));
    assert_eq!(scores.len(), 2);
}
