//! Services that note what is asked of them, in a shell.

use super::*;
use std::sync::{Mutex, PoisonError};

/// What happened, in order.
type Diary = Arc<Mutex<Vec<String>>>;

/// Notes what is done to it, and fails where it is told to.
struct Noted {
    name: &'static str,
    diary: Diary,
    fails_at: &'static str,
    /// Ends by itself.
    dies: bool,
    running: Option<Loop<()>>,
}

impl Noted {
    fn note(&self, what: &str) -> Result<(), Failure> {
        let line = format!("{} {what}", self.name);
        self.diary.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        if self.fails_at == what { Err(format!("it cannot {what}").into()) } else { Ok(()) }
    }
}

impl Service for Noted {
    fn kind(&self) -> &'static str {
        "noted"
    }

    fn role(&self) -> String {
        "a diary".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["any"]
    }

    fn listen(&mut self, _protocol: &str, _address: &Address) -> Result<(), String> {
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        Vec::new()
    }

    fn open(&mut self, _core: &Arc<EngineCore>, _is_shown: bool) -> Result<Routes, Failure> {
        self.note("open")?;
        Ok(Routes::default())
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        self.note("start")?;
        let dies = self.dies;
        let work = move |stop: &AtomicBool| {
            while !dies && !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        self.running = Some(Loop::start("noted", stop, work)?);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.running.as_mut().and_then(Loop::finish);
        self.note("finish")
    }
}

fn two(diary: &Diary, fails_at: &'static str, dies: bool) -> Result<(), String> {
    let service = |name, fails_at, dies| {
        let noted = Noted { name, diary: Arc::clone(diary), fails_at, dies, running: None };
        Served { name: Some(name.to_owned()), engine_core: 0, service: Box::new(noted) }
    };
    let stop = Stop::new().expect("descriptors");
    let services = [service("a", "", false), service("b", fails_at, dies)];
    let shell = Shell::start(services, &EnginePlan::default(), Access::default(), stop.clone());
    let shell = shell.map_err(|error| error.to_string())?;
    if !dies {
        stop.stop();
    }
    shell.wait().map_err(|error| error.to_string())
}

fn lines(diary: &Diary) -> String {
    std::mem::take(&mut *diary.lock().unwrap_or_else(PoisonError::into_inner)).join(", ")
}

#[test]
fn whatever_was_opened_is_finished_and_a_failure_has_a_name() {
    let diary = Diary::default();
    let all = "a open, b open, a start, b start, a finish, b finish";
    assert_eq!((two(&diary, "", false), &*lines(&diary)), (Ok(()), all));
    let told = |why: &str| Err(format!("service b: it cannot {why}"));
    assert_eq!((two(&diary, "finish", false), &*lines(&diary)), (told("finish"), all));
    assert_eq!((two(&diary, "start", false), &*lines(&diary)), (told("start"), all));
    let opened = "a open, b open, a finish, b finish";
    assert_eq!((two(&diary, "open", false), &*lines(&diary)), (told("open"), opened));
}

#[test]
fn a_thread_that_ends_by_itself_ends_the_process() {
    let diary = Diary::default();
    assert_eq!(two(&diary, "finish", true), Err("service b: it cannot finish".to_owned()));
    assert!(lines(&diary).ends_with("a finish, b finish"));
}
