//! Node events, as shown by `kubectl describe node`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};

/// Namespace for node events, because nodes themselves have no namespace.
const NAMESPACE: &str = "default";

const COMPONENT: &str = "corelane-node-tuner";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    KnobDrifted,
    KnobRepaired,
    KnobFailed,
    NodePrepared,
    NodeRestored,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Reason::KnobDrifted => "KnobDrifted",
            Reason::KnobRepaired => "KnobRepaired",
            Reason::KnobFailed => "KnobFailed",
            Reason::NodePrepared => "NodePrepared",
            Reason::NodeRestored => "NodeRestored",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Reason::KnobDrifted | Reason::KnobFailed => "Warning",
            Reason::KnobRepaired | Reason::NodePrepared | Reason::NodeRestored => "Normal",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) reason: Reason,
    /// There is one event per reason and subject.
    pub(crate) subject: String,
    pub(crate) words: String,
}

/// Repeating an event only increases its count.
#[derive(Debug)]
pub(crate) struct Events {
    api: Api<Event>,
    node: String,
}

impl Events {
    pub(crate) fn new(client: &Client, node: &str) -> Self {
        let api = Api::namespaced(client.clone(), NAMESPACE);
        Events { api, node: node.to_owned() }
    }

    /// Writes an event with its count. All later agents on the node use the same event name, and
    /// the API server keeps the event for an hour (--event-ttl).
    pub(crate) async fn tell(
        &self,
        node: &Node,
        message: &Message,
        times: i32,
    ) -> kube::Result<()> {
        let name = self.name(message);
        match self.api.get_opt(&name).await? {
            None => self.create(&name, node, message, times).await,
            Some(event) => {
                let count = event.count.unwrap_or(1).saturating_add(times);
                self.again(&name, count, message).await
            }
        }
    }

    async fn create(
        &self,
        name: &str,
        node: &Node,
        message: &Message,
        times: i32,
    ) -> kube::Result<()> {
        let now = Time(Timestamp::now());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node.clone()),
                // Without the UID, `kubectl describe node` hides the events
                // (node-problem-detector#1324).
                uid: node.uid(),
                ..ObjectReference::default()
            },
            type_: Some(message.reason.kind().to_owned()),
            reason: Some(message.reason.text().to_owned()),
            message: Some(message.words.clone()),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(self.node.clone()),
            }),
            count: Some(times),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            ..Event::default()
        };
        self.api.create(&PostParams::default(), &event).await.map(drop)
    }

    async fn again(&self, name: &str, count: i32, message: &Message) -> kube::Result<()> {
        let patch = serde_json::json!({
            "count": count,
            "lastTimestamp": Time(Timestamp::now()),
            "message": message.words,
        });
        let patched = self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop)
    }

    fn name(&self, message: &Message) -> String {
        let name = format!("{}.{}.{}", self.node, message.reason.text(), message.subject);
        let allowed = |it: char| it.is_ascii_alphanumeric() || it == '.';
        let name: String = name.chars().map(|it| if allowed(it) { it } else { '-' }).collect();
        name.to_ascii_lowercase().trim_matches(['.', '-']).to_owned()
    }
}

/// Minimum time between writes of the same event. Repeats in between are only counted.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Pending events, and the time when an equal event was last written, because two programs may
/// change a setting in every pass.
#[derive(Debug, Default)]
pub(super) struct Pace {
    events: BTreeMap<(Reason, String), Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    words: String,
    count: i32,
    told: Option<Instant>,
}

impl Pace {
    /// The last message replaces earlier messages.
    pub(super) fn add(&mut self, message: Message) {
        let waiting = self.events.entry((message.reason, message.subject)).or_default();
        waiting.words = message.words;
        waiting.count = waiting.count.saturating_add(1);
    }

    /// An event that may be written now, and how often it has occurred since the last write.
    pub(super) fn due(&self, now: Instant) -> Option<(Message, i32)> {
        let due = |it: &Waiting| {
            it.count > 0 && it.told.is_none_or(|told| now.duration_since(told) >= PAUSE)
        };
        let ((reason, subject), waiting) = self.events.iter().find(|(_, it)| due(it))?;
        let words = waiting.words.clone();
        Some((Message { reason: *reason, subject: subject.clone(), words }, waiting.count))
    }

    pub(super) fn done(&mut self, message: Message, now: Instant) {
        let done = Waiting { told: Some(now), ..Waiting::default() };
        self.events.insert((message.reason, message.subject), done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, words: &str) -> Message {
        let (subject, words) = (subject.to_owned(), words.to_owned());
        Message { reason: Reason::KnobDrifted, subject, words }
    }

    #[test]
    fn what_happens_all_the_time_is_told_every_five_minutes() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        pace.add(message("a", "first"));
        assert_eq!(pace.due(begin), Some((message("a", "first"), 1)));
        // The event has not been written yet, so it stays.
        assert_eq!(pace.due(begin), Some((message("a", "first"), 1)));
        pace.done(message("a", "first"), begin);
        assert_eq!(pace.due(begin + PAUSE), None);
        pace.add(message("a", "second"));
        pace.add(message("a", "third"));
        let early = begin + PAUSE - Duration::from_secs(1);
        assert_eq!(pace.due(early), None);
        pace.add(message("b", "another"));
        assert_eq!(pace.due(early), Some((message("b", "another"), 1)));
        assert_eq!(pace.due(begin + PAUSE), Some((message("a", "third"), 2)));
    }
}
