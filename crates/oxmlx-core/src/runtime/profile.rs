//! `OXMLX_TRACE=file.json`: what the engine did and when, for Chrome's trace viewer and Perfetto.
//!
//! The file is a JSON array of complete events, whole after each of them: an event is written over the closing
//! bracket and brings its own. So what a crash leaves can be read, and shows what was done last. While nobody
//! traces, a span costs one relaxed load.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static BEGIN: OnceLock<Instant> = OnceLock::new();
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

/// A stretch of time on one thread, from its making to its end; nothing, while nobody traces.
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<Open>>);

struct Open {
    category: &'static str,
    name: Cow<'static, str>,
    begin: Instant,
    /// Members of a JSON object.
    args: String,
}

/// Begins a span.
#[inline]
pub fn span(category: &'static str, name: &'static str) -> Span {
    if STATE.load(Relaxed) == OFF { Span(None) } else { begin(category, name) }
}

#[cold]
fn begin(category: &'static str, name: &'static str) -> Span {
    if STATE.load(Relaxed) == UNKNOWN {
        let on = super::settings::get().trace.is_some();
        BEGIN.get_or_init(Instant::now);
        STATE.store(if on { ON } else { OFF }, Relaxed);
        if !on {
            return Span(None);
        }
    }
    let (name, begin, args) = (Cow::Borrowed(name), Instant::now(), String::new());
    Span(Some(Box::new(Open { category, name, begin, args })))
}

impl Span {
    /// Notes a number, such as bytes.
    #[inline]
    pub fn number(mut self, key: &str, value: usize) -> Span {
        if let Some(open) = &mut self.0 {
            open.key(key);
            let _ = write!(open.args, "{value}");
        }
        self
    }

    /// Notes a text, which is made only if somebody traces.
    #[inline]
    pub fn text(mut self, key: &str, value: impl FnOnce() -> String) -> Span {
        if let Some(open) = &mut self.0 {
            open.key(key);
            quote(&mut open.args, &value());
        }
        self
    }
}

impl Open {
    fn key(&mut self, key: &str) {
        if !self.args.is_empty() {
            self.args.push(',');
        }
        quote(&mut self.args, key);
        self.args.push(':');
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            end(&open);
        }
    }
}

#[cold]
fn end(open: &Open) {
    let duration = open.begin.elapsed();
    let begin = BEGIN.get().map_or_else(Default::default, |b| open.begin.saturating_duration_since(*b));
    let micros = |d: Duration| (d.as_micros(), d.as_nanos() % 1000);
    let ((ts, ts_part), (dur, dur_part)) = (micros(begin), micros(duration));
    let (pid, (tid, new)) = (std::process::id(), thread());
    let mut event = String::with_capacity(160);
    if new && let Some(name) = std::thread::current().name() {
        let _ = write!(event, r#"{{"name":"thread_name","ph":"M","pid":{pid},"tid":{tid},"args":{{"name":"#);
        quote(&mut event, name);
        event.push_str("}},\n");
    }
    event.push_str(r#"{"name":"#);
    quote(&mut event, &open.name);
    let _ = write!(
        event,
        r#","cat":"{}","ph":"X","pid":{pid},"tid":{tid},"ts":{ts}.{ts_part:03},"dur":{dur}.{dur_part:03},"args":{{{}}}}}"#,
        open.category, open.args
    );
    // After a fork the lock may be held by a thread that exists in the parent only.
    let Some(mut writer) = WRITER.try_lock_for(Duration::from_secs(1)) else { return };
    // A forked child has a file of its own.
    if writer.as_ref().is_none_or(|w| w.pid != pid) {
        *writer = super::settings::get().trace.as_deref().and_then(Writer::open);
    }
    let written = writer.as_mut().is_some_and(|w| w.write(&event));
    if !written {
        // A file that can't be written to ends the tracing, not the program.
        STATE.store(OFF, Relaxed);
    }
}

/// The calling thread's number, and whether it was made now.
fn thread() -> (u32, bool) {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    NUMBER
        .try_with(|n| match n.get() {
            0 => {
                n.set(NEXT.fetch_add(1, Relaxed));
                (n.get(), true)
            }
            known => (known, false),
        })
        .unwrap_or((0, false))
}

/// Adds a string in JSON's notation.
fn quote(to: &mut String, text: &str) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(to, "\\u{:04x}", c as u32);
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

struct Writer {
    file: File,
    pid: u32,
    /// Where the next event goes; 0 before the first.
    at: u64,
}

impl Writer {
    /// The file itself, or, while another process writes that, one with this process's number in its name.
    fn open(path: &Path) -> Option<Writer> {
        let pid = std::process::id();
        let file = Writer::take(path).or_else(|| Writer::take(&numbered(path, pid)))?;
        Some(Writer { file, pid, at: 0 })
    }

    fn take(path: &Path) -> Option<File> {
        let file = File::options().create(true).write(true).truncate(false).open(path).ok()?;
        // Held until the process ends.
        file.try_lock().ok()?;
        file.set_len(0).ok()?;
        Some(file)
    }

    fn write(&mut self, event: &str) -> bool {
        let lead = if self.at == 0 { "[\n" } else { ",\n" };
        let text = format!("{lead}{event}\n]\n");
        let written = self.file.write_all_at(text.as_bytes(), self.at).is_ok();
        self.at += (text.len() - "\n]\n".len()) as u64;
        written
    }
}

/// `trace.json` as `trace.123.json`.
fn numbered(path: &Path, pid: u32) -> PathBuf {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(if extension.is_empty() { pid.to_string() } else { format!("{pid}.{extension}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_after_each_event() {
        let path = std::env::temp_dir().join(format!("oxmlx-trace-{}.json", std::process::id()));
        let mut writer = Writer::open(&path).expect("the temporary folder can be written to");
        for i in 1..=3 {
            assert!(writer.write(&format!("{{\"n\":{i}}}")));
            let text = std::fs::read_to_string(&path).expect("it was written");
            assert!(text.starts_with("[\n{") && text.ends_with("}\n]\n"), "{text}");
            assert_eq!(text.lines().count(), i + 2);
        }
        let other = Writer::take(&path);
        assert!(other.is_none(), "two writers");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn names_and_strings() {
        assert_eq!(numbered(Path::new("/a/b.json"), 7), Path::new("/a/b.7.json"));
        assert_eq!(numbered(Path::new("trace"), 7), Path::new("trace.7"));
        let mut s = String::new();
        quote(&mut s, "a\"b\\c\nd");
        assert_eq!(s, "\"a\\\"b\\\\c\\u000ad\"");
    }
}
