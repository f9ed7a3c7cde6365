//! `GET /projects?cursor=&limit=`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use corelane::Problem;
use form_urlencoded::parse;
use uuid::Uuid;

use super::Projects;
use super::reply::{self, ENVELOPE, Refusal, Reply, bad_parameter};
use super::store::Project;

const DEFAULT: usize = 20;
const MOST: usize = 100;

/// Size limit of a page in document bytes, regardless of the number of projects. A hundred of the
/// largest documents would take 6 MB of memory for each slow client.
const PAGE: usize = 1 << 20;

/// Projects per query: a default page plus one more, which shows whether another page follows.
const BATCH: usize = DEFAULT + 1;

/// Prefix of a cursor, which distinguishes later formats.
const AFTER_ID: u8 = 1;

impl Projects {
    pub(super) async fn list(&self, query: &str) -> Result<Reply, Refusal> {
        let Page { after, limit } = Page::read(query)?;
        let mut found: Vec<Project> = Vec::new();
        let is_last = loop {
            let asked = (limit + 1 - found.len()).min(BATCH);
            let after = found.last().map_or(after, |project| Some(project.id));
            let batch = self.store.list(after, asked as u32).await?;
            let is_end = batch.len() < asked;
            found.extend(batch);
            if let Some(fit) = fit(&found, limit) {
                found.truncate(fit);
                break false;
            }
            if is_end {
                break true;
            }
        };
        let next = found.last().filter(|_| !is_last).map(|project| cursor(project.id));
        Ok(reply::json(page(&found, next.as_deref())))
    }
}

/// Number of these projects that fit on a page (at least one), or `None` if all of them fit.
fn fit(found: &[Project], limit: usize) -> Option<usize> {
    let mut bytes = 0;
    let fits = |project: &&Project| {
        let fits = bytes <= PAGE;
        bytes += project.document.len();
        fits
    };
    let fit = found.iter().take(limit).take_while(fits).count();
    (fit < found.len()).then_some(fit)
}

fn page(projects: &[Project], next: Option<&str>) -> Vec<u8> {
    let room = projects.iter().map(|project| ENVELOPE + project.document.len()).sum::<usize>();
    let mut text = Vec::with_capacity(room + ENVELOPE);
    text.extend_from_slice(b"{\"projects\":[");
    for (index, project) in projects.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        reply::write(project, &mut text);
    }
    let next = next.map_or_else(|| "null".to_owned(), |next| format!("\"{next}\""));
    text.extend_from_slice(format!("],\"next\":{next}}}").as_bytes());
    text
}

#[derive(Debug, PartialEq)]
struct Page {
    after: Option<Uuid>,
    limit: usize,
}

impl Page {
    fn read(query: &str) -> Result<Self, Problem> {
        let (mut after, mut limit) = (None, None);
        for (name, value) in parse(query.as_bytes()) {
            match name.as_ref() {
                "cursor" if after.is_none() => {
                    let id = id_of(&value);
                    after = Some(id.ok_or_else(bad_cursor)?);
                }
                "cursor" => return Err(bad_cursor()),
                "limit" if limit.is_none() => {
                    let number = value.parse().ok().filter(|n| (1..=MOST).contains(n));
                    limit = Some(number.ok_or_else(bad_limit)?);
                }
                "limit" => return Err(bad_limit()),
                _ => {}
            }
        }
        Ok(Page { after, limit: limit.unwrap_or(DEFAULT) })
    }
}

fn bad_cursor() -> Problem {
    bad_parameter("cursor", "given once, as next of the page before")
}

fn bad_limit() -> Problem {
    bad_parameter("limit", &format!("given once, a whole number from 1 to {MOST}"))
}

/// A cursor for the position after this project, opaque to clients.
fn cursor(id: Uuid) -> String {
    let mut bytes = vec![AFTER_ID];
    bytes.extend_from_slice(id.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn id_of(cursor: &str) -> Option<Uuid> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let [AFTER_ID, id @ ..] = bytes.as_slice() else { return None };
    Uuid::from_slice(id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_id() {
        let id = Uuid::from_u128(0x018f_4d5e_7c3a_7b2f_9d10_0123_4567_89ab);
        assert_eq!(id_of(&cursor(id)), Some(id));
        for wrong in ["", "x", &id.to_string(), &cursor(id)[1..], &format!("{}=", cursor(id))] {
            assert_eq!(id_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_query_is_read_with_its_bounds() {
        let page = |after, limit| Some(Page { after, limit });
        assert_eq!(Page::read("").ok(), page(None, DEFAULT));
        assert_eq!(Page::read("limit=100&other=1").ok(), page(None, 100));
        for wrong in ["limit=0", "limit=101", "limit=", "limit=1&limit=1", "limit=+", "cursor="] {
            assert!(Page::read(wrong).is_err(), "{wrong}");
        }
    }
}
