//! What a server says of its model, and random requests for it, encoded.

use super::http::Connection;
use super::{Form, Ids};
use base::prng::Prng;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use rec::synth::Generator;
use serde_json::{Value, json};
use serve::rec::proto::millrace::{InferRequest, RecommendClient};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Requests that are made before, and sent in turns.
const KEPT: usize = 256;

/// A server.
#[derive(Clone, Debug)]
pub enum Target {
    /// Over the fabric.
    Fabric(Address),
    /// Over HTTP: host and port.
    Http(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text.strip_prefix("http://") {
            Some(rest) => Ok(Target::Http(rest.trim_end_matches('/').to_owned())),
            None => text.parse().map(Target::Fabric).map_err(|error| format!("{error}; or http://HOST:PORT")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Fabric(address) => address.fmt(f),
            Target::Http(address) => write!(f, "http://{address}"),
        }
    }
}

/// What a server serves and counted.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The model.
    pub name: String,
    /// Dense features.
    pub dense: usize,
    /// Tables with their rows.
    pub tables: Vec<(String, u64)>,
    /// What it counted.
    pub counters: BTreeMap<String, u64>,
}

impl Subject {
    /// Asks for it.
    ///
    /// # Errors
    /// A sentence.
    pub fn of(target: &Target) -> Result<Subject, String> {
        match target {
            Target::Fabric(address) => {
                let channel = Channel::connect(address, &Options::default());
                let mut channel = channel.map_err(|error| format!("{address}: {error}"))?;
                let client = RecommendClient::new(&channel).map_err(|error| format!("{address}: {error}"))?;
                let options = CallOptions::within(Duration::from_secs(10));
                let reply = client.describe(&mut channel, &options, |_| Ok(()));
                let reply = reply.map_err(|status| format!("{address}: {status}"))?;
                let view = reply.view();
                Ok(Subject {
                    name: view.name().to_owned(),
                    dense: view.dense() as usize,
                    tables: view
                        .tables()
                        .iter()
                        .map(|table| (table.name().to_owned(), table.rows()))
                        .collect(),
                    counters: view.counters().iter().map(|c| (c.name().to_owned(), c.value())).collect(),
                })
            }
            Target::Http(address) => {
                Subject::of_http(address).map_err(|why| format!("http://{address}: {why}"))
            }
        }
    }

    fn of_http(address: &str) -> Result<Subject, String> {
        let mut connection = Connection::to(address)?;
        let index = connection.json("POST", "/v2/repository/index")?;
        let name = index[0]["name"].as_str().ok_or("no model in its index")?.to_owned();
        let about = connection.json("GET", &format!("/v2/models/{name}"))?;
        let parameters = &about["parameters"];
        let tables = parameters["tables"].as_array().ok_or("it says nothing of tables: is it millrace?")?;
        let tables = tables.iter().map(|table| {
            (table["name"].as_str().unwrap_or_default().to_owned(), table["rows"].as_u64().unwrap_or(0))
        });
        let inputs = about["inputs"].as_array().into_iter().flatten();
        let dense = inputs.clone().find(|input| input["name"] == "dense");
        let counters = parameters["counters"].as_object().into_iter().flatten();
        Ok(Subject {
            name,
            dense: dense.and_then(|input| input["shape"][1].as_u64()).unwrap_or(0) as usize,
            tables: tables.collect(),
            counters: counters.map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0))).collect(),
        })
    }

    /// Random requests of `batch` queries, uniform ids `bag` in a bag on average.
    pub fn requests(&self, batch: usize, ids: Ids, bag: usize, seed: u64) -> Vec<Request<'_>> {
        let mut random = Prng::new(seed);
        let mut below = move |end: u64| ((u128::from(random.next_u64()) * u128::from(end)) >> 64) as u64;
        // A table of each length has its own groups; tables of one length share them, as random models' plans do.
        let rows = |rows: u64| u32::try_from(rows).unwrap_or(u32::MAX);
        let mut generators: Vec<Option<Generator>> = (1..)
            .zip(&self.tables)
            .map(|(at, table)| {
                let grouped = ids == Ids::Grouped && table.1 > 0;
                grouped.then(|| Generator::new(rows(table.1), seed, at))
            })
            .collect();
        let mut drawn = Vec::new();
        let mut one = |at: usize| {
            if let Some(generator) = &mut generators[at] {
                generator.bag(&mut drawn);
                return drawn.iter().map(|&id| i64::from(id)).collect();
            }
            let rows = self.tables[at].1;
            // From 1 to twice the mean less one: `bag` on average.
            let count = if rows == 0 { 0 } else { 1 + below(2 * bag.max(1) as u64 - 1) };
            (0..count).map(|_| below(rows) as i64).collect()
        };
        let bags: Vec<Vec<Vec<Vec<i64>>>> = (0..KEPT)
            .map(|_| (0..self.tables.len()).map(|at| (0..batch).map(|_| one(at)).collect()).collect())
            .collect();
        let mut random = Prng::new(!seed);
        let mut number = move || (random.next_u64() >> 44) as f32 / (1 << 20) as f32;
        bags.into_iter()
            .map(|bags| Request {
                subject: self,
                dense: (0..batch * self.dense).map(|_| number()).collect(),
                bags,
            })
            .collect()
    }
}

/// A request.
pub struct Request<'s> {
    subject: &'s Subject,
    dense: Vec<f32>,
    /// Of each table, of each query.
    bags: Vec<Vec<Vec<i64>>>,
}

impl Request<'_> {
    /// Where each of a table's bags begins, and where the last ends.
    fn offsets(bags: &[Vec<i64>]) -> Vec<i32> {
        let mut end = 0;
        let ends = bags.iter().map(|bag| {
            end += bag.len() as i32;
            end
        });
        std::iter::once(0).chain(ends.collect::<Vec<_>>()).collect()
    }

    /// The features of a query as people write them.
    fn features(&self, query: usize) -> impl Iterator<Item = String> {
        let tables = self.subject.tables.iter().zip(&self.bags);
        tables.flat_map(move |((name, _), bags)| bags[query].iter().map(move |id| format!("{name}: {id}")))
    }

    fn len(&self) -> usize {
        self.bags.first().map_or(1, Vec::len)
    }

    /// As a message of the fabric.
    pub fn message(&self, form: Form) -> Vec<u8> {
        let (arena, mut encoder) = (Arena::default(), Encoder::default());
        let built = InferRequest::new(&arena).and_then(|mut to| {
            match form {
                Form::Features => {
                    for query in 0..self.len() {
                        let mut to = to.push_queries()?;
                        self.features(query).try_for_each(|feature| to.push_features(&feature))?;
                        let dense = self.subject.dense;
                        to.set_dense(&self.dense[query * dense..][..dense])?;
                    }
                }
                Form::Tensors | Form::Json => {
                    to.set_dense(&self.dense)?;
                    for ((name, _), bags) in self.subject.tables.iter().zip(&self.bags) {
                        let mut to = to.push_bags()?;
                        to.set_table(name)?;
                        to.set_values(&bags.concat())?;
                        to.set_offsets(&Request::offsets(bags))?;
                    }
                }
            }
            Ok::<_, OutOfMemory>(to)
        });
        let view = InferRequest::freeze(built.expect("memory for a request"));
        view.encode(&mut encoder).expect("a request that can be written");
        encoder.written().to_vec()
    }

    /// As an HTTP request, head and body.
    pub fn http(&self, form: Form, host: &str) -> Vec<u8> {
        let mut binary = Vec::new();
        let mut inputs = Vec::new();
        let mut tensor = |name: String, datatype: &str, shape: Value, data: Value, bytes: Vec<u8>| {
            let mut input = json!({ "name": name, "datatype": datatype, "shape": shape });
            match form {
                Form::Tensors => {
                    input["parameters"] = json!({ "binary_data_size": bytes.len() });
                    binary.extend_from_slice(&bytes);
                }
                Form::Json | Form::Features => input["data"] = data,
            }
            inputs.push(input);
        };
        let len = self.len();
        let bytes = self.dense.iter().flat_map(|number| number.to_le_bytes()).collect();
        if self.subject.dense > 0 {
            tensor("dense".to_owned(), "FP32", json!([len, self.subject.dense]), json!(self.dense), bytes);
        }
        if form == Form::Features {
            let text = |query| self.features(query).collect::<Vec<_>>().join(";");
            let texts: Vec<String> = (0..len).map(text).collect();
            tensor("features".to_owned(), "BYTES", json!([len]), json!(texts), Vec::new());
        } else {
            for ((name, _), bags) in self.subject.tables.iter().zip(&self.bags) {
                let (values, offsets) = (bags.concat(), Request::offsets(bags));
                let bytes = values.iter().flat_map(|id| id.to_le_bytes()).collect();
                tensor(format!("{name}.values"), "INT64", json!([values.len()]), json!(values), bytes);
                let bytes = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
                tensor(format!("{name}.offsets"), "INT32", json!([offsets.len()]), json!(offsets), bytes);
            }
        }
        let is_binary = form == Form::Tensors;
        let object =
            json!({ "inputs": inputs, "parameters": { "binary_data_output": is_binary } }).to_string();
        let extra = match is_binary {
            true => format!("Inference-Header-Content-Length: {}\r\n", object.len()),
            false => String::new(),
        };
        let (name, length) = (&self.subject.name, object.len() + binary.len());
        let head = format!(
            "POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{extra}\r\n"
        );
        [head.as_bytes(), object.as_bytes(), &binary].concat()
    }
}
