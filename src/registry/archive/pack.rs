//! Zips for tests, written record by record, so that a test can lie in each of them.

use std::io::Write;

use flate2::Crc;
use flate2::write::DeflateEncoder;

/// A file of a zip, as its records describe it.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) name: Vec<u8>,
    /// The name in the header before the content.
    pub(crate) local_name: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// What is different in the flags of the header before the content.
    pub(crate) local_flags: u16,
    /// The extra fields in the list, and before the content.
    pub(crate) extra: Vec<u8>,
    pub(crate) local_extra: Vec<u8>,
    pub(crate) crc: u32,
    pub(crate) size: u32,
    pub(crate) mode: u32,
    /// What lies in the archive.
    pub(crate) bytes: Vec<u8>,
    /// What lies behind that.
    pub(crate) behind: Vec<u8>,
}

impl Item {
    /// A file as it should be, compressed.
    pub(crate) fn new(name: &str, content: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        Self { method: 8, bytes: encoder.finish().unwrap(), ..Self::stored(name, content) }
    }

    /// A file as it should be, not compressed.
    pub(crate) fn stored(name: &str, content: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(content);
        Self {
            name: name.into(),
            local_name: name.into(),
            method: 0,
            flags: 0,
            local_flags: 0,
            extra: Vec::new(),
            local_extra: Vec::new(),
            crc: crc.sum(),
            size: content.len().try_into().unwrap(),
            mode: 0o100_644,
            bytes: content.to_vec(),
            behind: Vec::new(),
        }
    }

    fn fields(&self, (name, extra): (&[u8], &[u8]), flags: u16) -> Vec<u8> {
        let mut fields = Vec::new();
        for number in [20, flags, self.method, 0, 0] {
            fields.extend(u16::to_le_bytes(number));
        }
        for number in [self.crc, self.bytes.len().try_into().unwrap(), self.size] {
            fields.extend(u32::to_le_bytes(number));
        }
        for number in [name, extra].map(|bytes| u16::try_from(bytes.len()).unwrap()) {
            fields.extend(u16::to_le_bytes(number));
        }
        fields
    }
}

/// The entry of one file in the list, which says that its header is at `at`.
pub(crate) fn listed(item: &Item, at: u32) -> Vec<u8> {
    let mut record = b"PK\x01\x02\x14\x03".to_vec();
    record.extend(item.fields((&item.name, &item.extra), item.flags));
    record.extend([0; 6]);
    record.extend(u32::to_le_bytes(item.mode << 16));
    record.extend(u32::to_le_bytes(at));
    record.extend(&item.name);
    record.extend(&item.extra);
    record
}

/// The record at the end.
pub(crate) fn end(entries: u16, list_bytes: u32, list_start: u32) -> Vec<u8> {
    let mut record = b"PK\x05\x06\0\0\0\0".to_vec();
    record.extend([entries.to_le_bytes(), entries.to_le_bytes()].concat());
    record.extend([list_bytes.to_le_bytes(), list_start.to_le_bytes()].concat());
    record.extend([0, 0]);
    record
}

/// A zip of these files.
pub(crate) fn zip(items: &[Item]) -> Vec<u8> {
    let (mut zip, mut list) = (Vec::new(), Vec::new());
    for item in items {
        list.extend(listed(item, zip.len().try_into().unwrap()));
        zip.extend(b"PK\x03\x04");
        let flags = item.flags ^ item.local_flags;
        zip.extend(item.fields((&item.local_name, &item.local_extra), flags));
        zip.extend(&item.local_name);
        zip.extend(&item.local_extra);
        zip.extend(&item.bytes);
        zip.extend(&item.behind);
    }
    let end = end(items.len().try_into().unwrap(), list.len().try_into().unwrap(), zip.len().try_into().unwrap());
    [zip, list, end].concat()
}
