//! What the journal keeps of one step of an execution: the values of the statements that put it
//! into the database. Columns are only ever added at the end, so that what an older version wrote
//! can be bound by a newer one; what it did not have is NULL.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

use crate::model::ExecutionId;

/// Bytes before the values: what it is, and of which execution.
const HEAD: usize = 17;

/// Which step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Step {
    /// The execution begins.
    Open,
    /// It has ended.
    Close,
    /// It has ended without having begun.
    CloseWaiting,
}

impl Step {
    const ALL: [Self; 3] = [Self::Open, Self::Close, Self::CloseWaiting];
}

/// One step of an execution, as it is kept.
#[derive(Clone, Debug)]
pub(in crate::store) struct Record(Box<[u8]>);

impl Record {
    /// A record whose values `fill` puts in.
    ///
    /// # Errors
    ///
    /// As `fill`.
    pub(in crate::store) fn new(
        step: Step,
        id: ExecutionId,
        fill: impl FnOnce(&mut Values) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Self> {
        let mut values = Values(Vec::with_capacity(512));
        values.0.push(step as u8);
        values.0.extend_from_slice(id.as_bytes());
        fill(&mut values)?;
        Ok(Self(values.0.into()))
    }

    /// A record as it was kept, if it is one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let record = Self(bytes.into());
        let known = bytes.len() >= HEAD && Step::ALL.get(usize::from(bytes[0])).is_some();
        known.then_some(record)
    }

    /// As it is kept.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes it has.
    pub(in crate::store) fn len(&self) -> usize {
        self.0.len()
    }

    /// Which step it is.
    pub(in crate::store) fn step(&self) -> Step {
        Step::ALL[usize::from(self.0[0])]
    }

    /// Of which execution.
    pub(in crate::store) fn id(&self) -> ExecutionId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[1..HEAD]);
        ExecutionId::from_bytes(id)
    }

    /// Its values, in groups: one for each statement.
    pub(in crate::store) fn groups(&self) -> Groups<'_> {
        Groups(&self.0[HEAD..])
    }
}

/// The values of a record while it is made.
pub(in crate::store) struct Values(Vec<u8>);

impl Values {
    /// Begins the values of one statement, of which there are `count`.
    pub(in crate::store) fn group(&mut self, count: u8) {
        self.0.push(count);
    }

    /// Adds the next value.
    ///
    /// # Errors
    ///
    /// If SQLite has no such value.
    pub(in crate::store) fn push(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        match value.to_sql()? {
            ToSqlOutput::Borrowed(value) => self.value(value),
            ToSqlOutput::Owned(value) => self.value(ValueRef::from(&value)),
            other => {
                let text = format!("a value that cannot be kept: {other:?}");
                return Err(rusqlite::Error::ToSqlConversionFailure(text.into()));
            }
        }
        Ok(())
    }

    fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.0.push(0),
            ValueRef::Integer(number) => self.fixed(1, number.to_le_bytes()),
            ValueRef::Real(number) => self.fixed(2, number.to_le_bytes()),
            ValueRef::Text(bytes) => self.sized(3, bytes),
            ValueRef::Blob(bytes) => self.sized(4, bytes),
        }
    }

    fn fixed(&mut self, tag: u8, bytes: [u8; 8]) {
        self.0.push(tag);
        self.0.extend_from_slice(&bytes);
    }

    fn sized(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

/// The groups of values of a record that are still to come.
#[derive(Clone)]
pub(in crate::store) struct Groups<'a>(&'a [u8]);

impl<'a> Groups<'a> {
    /// Binds the next group to `statement`, whose other parameters are NULL.
    ///
    /// # Errors
    ///
    /// If the record is not whole, or as the driver gives them.
    pub(in crate::store) fn bind(&mut self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        statement.clear_bindings();
        for index in 1..=usize::from(self.byte()?) {
            statement.raw_bind_parameter(index, ToSqlOutput::Borrowed(self.value()?))?;
        }
        Ok(())
    }

    /// How many values the next group has, if there is one.
    pub(in crate::store) fn next_count(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Does something with the groups that are to come, which come again.
    pub(in crate::store) fn again<R>(&self, work: impl FnOnce(&mut Groups<'a>) -> R) -> R {
        work(&mut Groups(self.0))
    }

    /// [`Groups::bind`] for a statement of this text, and runs it; gives how many rows it changed.
    ///
    /// # Errors
    ///
    /// The same.
    pub(in crate::store) fn run(&mut self, connection: &Connection, text: &str) -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(text)?;
        self.bind(&mut statement)?;
        statement.raw_execute()
    }

    /// The first values of the next group, in their order; those that it does not have are NULL.
    ///
    /// # Errors
    ///
    /// If the record is not whole.
    pub(in crate::store) fn values<const N: usize>(&mut self) -> rusqlite::Result<[ValueRef<'a>; N]> {
        let mut values = [ValueRef::Null; N];
        for at in 0..usize::from(self.byte()?) {
            let value = self.value()?;
            if let Some(place) = values.get_mut(at) {
                *place = value;
            }
        }
        Ok(values)
    }

    fn value(&mut self) -> rusqlite::Result<ValueRef<'a>> {
        Ok(match self.byte()? {
            0 => ValueRef::Null,
            1 => ValueRef::Integer(i64::from_le_bytes(self.eight()?)),
            2 => ValueRef::Real(f64::from_le_bytes(self.eight()?)),
            3 => ValueRef::Text(self.sized()?),
            4 => ValueRef::Blob(self.sized()?),
            _ => return Err(not_whole()),
        })
    }

    fn sized(&mut self) -> rusqlite::Result<&'a [u8]> {
        let length = usize::try_from(u64::from_le_bytes(self.eight()?)).map_err(|_| not_whole())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(not_whole)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn eight(&mut self) -> rusqlite::Result<[u8; 8]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(not_whole)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn byte(&mut self) -> rusqlite::Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or_else(not_whole)?;
        self.0 = rest;
        Ok(*byte)
    }
}

fn not_whole() -> rusqlite::Error {
    let text = "a record of the journal is not whole";
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::types::Value;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            ".{0,40}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn what_is_kept_is_bound_again(values in proptest::collection::vec(value(), 0..20)) {
            let id = ExecutionId::generate();
            let record = Record::new(Step::Close, id, |kept| {
                kept.group(u8::try_from(values.len()).unwrap());
                values.iter().try_for_each(|value| kept.push(value))
            }).unwrap();
            let read = Record::read(record.bytes()).unwrap();
            prop_assert_eq!((read.step(), read.id()), (Step::Close, id));
            let connection = Connection::open_in_memory().unwrap();
            let places: Vec<_> = (1..=values.len()).map(|at| format!("?{at}")).collect();
            let text = format!("SELECT {}", if places.is_empty() { "1".to_owned() } else { places.join(", ") });
            let mut statement = connection.prepare(&text).unwrap();
            read.groups().bind(&mut statement).unwrap();
            let mut rows = statement.raw_query();
            let row = rows.next().unwrap().unwrap();
            for (at, value) in values.iter().enumerate() {
                prop_assert_eq!(&row.get::<_, Value>(at).unwrap(), value);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let Some(record) = Record::read(&bytes) else { return Ok(()) };
            let connection = Connection::open_in_memory().unwrap();
            let mut statement = connection.prepare("SELECT ?1, ?2, ?3").unwrap();
            let _ = record.groups().bind(&mut statement);
        }
    }
}
