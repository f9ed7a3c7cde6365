//! Passes text as bytes. A document is valid UTF-8 because it was parsed as JSON, and each session
//! sets UTF-8 as its encoding. Validating it again for each statement would take longer than
//! sending it.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

#[derive(Debug)]
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Text<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Text(raw))
    }

    accepts!(TEXT);
}
