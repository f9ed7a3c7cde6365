//! `corelane check`: requests a URL until the response is as expected. The pods of `helm test` use
//! it as their client.
//!
//! A static build can resolve names in an image that contains only `/etc/resolv.conf` and
//! `/etc/hosts`. musl always supports this, and glibc has built-in lookups in files and DNS since
//! 2.34.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use corelane_service::flags::allowed;
use corelane_service::http::Url;
use corelane_service::{process, value};
use hyper::header::HeaderName;
use hyper::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout_at};

use crate::get::{GetError, get};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Request a URL until the response is as expected
#[derive(Args, Debug)]
#[command(
    after_help = "Example: corelane check http://127.0.0.1:8080/hello --body hello --deadline 10s\n\n\
                        Flags take precedence over the environment. Exit codes: 0 for the expected reply; \
                        1 when it did not come before the deadline; 64 for a bad flag or variable."
)]
pub(crate) struct Check {
    /// URL to request: http://HOST[:PORT][/PATH]
    #[arg(env = "CORELANE_CHECK_URL", value_parser = allowed(value::word::<Url>))]
    url: Url,
    /// Expected status code
    #[arg(long, env = "CORELANE_CHECK_STATUS", default_value = "200", value_parser = allowed(status))]
    status: StatusCode,
    /// Header that the response must have
    #[arg(long, env = "CORELANE_CHECK_HEADER", value_name = "NAME", value_parser = allowed(header))]
    header: Option<HeaderName>,
    /// Number of distinct header values to see, each on a new connection
    #[arg(long, env = "CORELANE_CHECK_DISTINCT", value_name = "NUMBER", default_value = "1")]
    #[arg(requires = "header", value_parser = allowed(value::number(1, 1000)))]
    distinct: u64,
    /// Text that the response body must contain
    #[arg(long, env = "CORELANE_CHECK_BODY", value_name = "TEXT")]
    body: Option<String>,
    /// Time after which the check fails
    #[arg(long, env = "CORELANE_CHECK_DEADLINE", value_name = "DURATION", default_value = "60s")]
    #[arg(value_parser = allowed(value::duration(Duration::from_millis(1), HOUR)))]
    deadline: Duration,
    /// Pause between two requests
    #[arg(long, env = "CORELANE_CHECK_INTERVAL", value_name = "DURATION", default_value = "100ms")]
    #[arg(value_parser = allowed(value::duration(Duration::from_millis(1), HOUR)))]
    interval: Duration,
}

fn status(text: &str) -> Result<StatusCode, &'static str> {
    text.parse().map_err(|_| "a whole number from 100 to 999")
}

fn header(text: &str) -> Result<HeaderName, &'static str> {
    text.parse().map_err(|_| "the name of an HTTP header")
}

pub(crate) fn run(check: &Check) -> ExitCode {
    match process::block_on(check.until_expected(), true) {
        Ok(Ok(message)) => {
            process::print(&format!("{message}\n"));
            ExitCode::SUCCESS
        }
        Ok(Err(message)) => failed(&message),
        Err(error) => failed(&error),
    }
}

fn failed(message: &dyn std::fmt::Display) -> ExitCode {
    process::report(crate::NAME, message);
    ExitCode::FAILURE
}

impl Check {
    /// If the deadline passes, returns what was still missing.
    async fn until_expected(&self) -> Result<String, String> {
        let deadline = Instant::now() + self.deadline;
        let mut progress = Progress::new(self);
        loop {
            let path = self.url.path().as_str();
            if let Ok(reply) = timeout_at(deadline, get(&self.url, path)).await
                && progress.note(reply)
            {
                return Ok(progress.to_string());
            }
            if Instant::now() + self.interval >= deadline {
                return Err(format!("{} did not reply as expected: {progress}", self.url));
            }
            sleep(self.interval).await;
        }
    }
}

/// Number of responses received until now.
#[derive(Debug)]
struct Progress<'c> {
    expected: &'c Check,
    values: BTreeSet<String>,
    replies: usize,
    /// The last response or error; `None` before the first.
    last: Option<String>,
}

impl<'c> Progress<'c> {
    fn new(expected: &'c Check) -> Self {
        Self { expected, values: BTreeSet::new(), replies: 0, last: None }
    }

    fn note(&mut self, reply: Result<Response<Bytes>, GetError>) -> bool {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                self.last = Some(error.to_string());
                return false;
            }
        };
        self.replies += 1;
        let body = String::from_utf8_lossy(reply.body());
        let short: String = body.chars().take(200).collect();
        let missing = self.missing(&reply, &body);
        let last = format!("{} {short:?}", reply.status());
        self.last = Some(missing.iter().fold(last, |last, what| last + " without " + what));
        missing.is_none()
            && reply.status() == self.expected.status
            && (self.expected.header.is_none()
                || self.values.len() as u64 >= self.expected.distinct)
    }

    /// Reason why the response is not as expected, if any. Also records the header value.
    fn missing(&mut self, reply: &Response<Bytes>, body: &str) -> Option<String> {
        let Check { header, body: text, status, .. } = self.expected;
        if let Some(text) = text.as_ref().filter(|text| !body.contains(text.as_str())) {
            return Some(format!("{text:?}"));
        }
        let header = header.as_ref().filter(|_| reply.status() == *status)?;
        let Some(value) = reply.headers().get(header) else { return Some(header.to_string()) };
        self.values.insert(String::from_utf8_lossy(value.as_bytes()).into());
        None
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Check { status, header, distinct, body, .. } = self.expected;
        write!(f, "{} replies, expected {status}", self.replies)?;
        if let Some(text) = body {
            write!(f, " with {text:?}")?;
        }
        if let Some(header) = header {
            let values: Vec<_> = self.values.iter().map(String::as_str).collect();
            write!(f, " and {distinct} of {header}, seen [{}]", values.join(", "))?;
        }
        let last = self.last.as_deref().unwrap_or("no reply before the deadline");
        write!(f, "; last: {last}")
    }
}
