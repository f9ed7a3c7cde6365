//! The projects that users save: seeded text of the published size.

use fastrand::Rng;
use memchr::memmem;
use serde::Serialize;

const SIZE: usize = 5_700;

const TAGS: usize = 6;
const TASKS: usize = 20;
const REVISION: &str = "revision ";
const DIGITS: usize = 8;

/// One word is not ASCII, as in real text.
const WORDS: [&str; 12] = [
    "lane",
    "queue",
    "review",
    "drain",
    "budget",
    "Überblick",
    "socket",
    "release",
    "meeting",
    "gateway",
    "draft",
    "quantile",
];

#[derive(Serialize)]
struct Project {
    name: String,
    description: String,
    status: &'static str,
    tags: Vec<String>,
    tasks: Vec<Task>,
}

#[derive(Serialize)]
struct Task {
    title: String,
    done: bool,
    notes: String,
}

/// A project's text. The revision appears near the start and near the end, so that a mixture of two
/// versions is noticed.
#[derive(Debug)]
pub(crate) struct Document {
    text: Vec<u8>,
    revision: u64,
    digits: Vec<usize>,
}

impl Document {
    /// Creates a user's document. The same seed results in the same document.
    pub(crate) fn new(seed: u64, user: usize) -> Self {
        let mut random = Rng::with_seed(seed ^ (user as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let revision = format!("{REVISION}{:0DIGITS$}", 0);
        let mut project = Project {
            name: format!("Project {user:05}, {revision}"),
            description: words(&mut random, 600),
            status: ["planned", "active", "done"][random.usize(..3)],
            tags: (0..TAGS).map(|_| words(&mut random, 12)).collect(),
            tasks: (0..TASKS).map(|_| Task::new(&mut random)).collect(),
        };
        project.tasks[TASKS - 1].title = format!("Check of {revision}");
        let missing = SIZE.saturating_sub(json(&project).len());
        project.tasks[0].notes.push_str(&".".repeat(missing));
        let text = json(&project);
        let digits =
            memmem::find_iter(&text, REVISION).map(|found| found + REVISION.len()).collect();
        Document { text, revision: 0, digits }
    }

    pub(crate) fn revise(&mut self) {
        self.revision += 1;
        let digits = format!("{:0DIGITS$}", self.revision);
        for &place in &self.digits {
            self.text[place..place + DIGITS].copy_from_slice(digits.as_bytes());
        }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn is_shown_by(&self, body: &[u8], id: &str) -> bool {
        // Fast path: the text as sent, after the server's own members.
        if let Some(own) = body.strip_suffix(&self.text[1..]) {
            return memmem::find(own, id.as_bytes()).is_some();
        }
        let Ok(serde_json::Value::Object(mut shown)) = serde_json::from_slice(body) else {
            return false;
        };
        let named = shown.remove("id").is_some_and(|value| value == id);
        for own in ["version", "created", "updated"] {
            shown.remove(own);
        }
        let sent = serde_json::from_slice::<serde_json::Value>(&self.text);
        named && sent.is_ok_and(|sent| sent == serde_json::Value::Object(shown))
    }
}

impl Task {
    fn new(random: &mut Rng) -> Self {
        Task { title: words(random, 30), done: random.bool(), notes: words(random, 120) }
    }
}

fn json(project: &Project) -> Vec<u8> {
    serde_json::to_vec(project).expect("text and numbers")
}

/// Words of about this many bytes in total.
fn words(random: &mut Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[random.usize(..WORDS.len())]);
    }
    text
}
