//! Server reflection (`grpc/reflection/v1/reflection.proto`): the schema from the server itself. Questions
//! and replies of v1 and v1alpha have the same bytes.

use super::schema::MAX_FILES;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use std::collections::BTreeMap;

/// The methods, newest first.
pub(crate) const SERVICES: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Bytes of all files of a schema.
const MAX_BYTES: usize = 16 << 20;

/// A question to the server.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(oneof = "Question", tags = "3, 4, 7")]
    pub(crate) question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Question {
    /// The file with this name.
    #[prost(string, tag = "3")]
    File(String),
    /// The file with this service.
    #[prost(string, tag = "4")]
    Symbol(String),
    /// Names of all services.
    #[prost(string, tag = "7")]
    Services(String),
}

/// The reply.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Reply {
    #[prost(oneof = "Content", tags = "4, 6, 7")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Content {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Error(ReplyError),
}

/// Encoded descriptors of files.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Files {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) files: Vec<bytes::Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Services {
    #[prost(message, repeated, tag = "1")]
    pub(crate) services: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Service {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReplyError {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// The files of a server up to now.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    files: BTreeMap<String, FileDescriptorProto>,
    bytes: usize,
}

impl Descriptors {
    /// Adds files of a reply.
    pub(crate) fn add(&mut self, files: &Files) -> Result<(), String> {
        for bytes in &files.files {
            self.bytes += bytes.len();
            let file = FileDescriptorProto::decode(&**bytes);
            let file = file.map_err(|error| format!("a file of the reflection: {error}"))?;
            self.files.insert(file.name().to_owned(), file);
        }
        if self.bytes > MAX_BYTES || self.files.len() > MAX_FILES {
            let mebibytes = MAX_BYTES >> 20;
            return Err(format!("a schema has at most {MAX_FILES} files and {mebibytes} MiB"));
        }
        Ok(())
    }

    /// An imported file that is still missing.
    pub(crate) fn missing(&self) -> Option<String> {
        let own = |name: &&String| !self.files.contains_key(*name);
        let known = DescriptorPool::global();
        let unknown = |name: &&String| known.get_file_by_name(name).is_none();
        let mut imports = self.files.values().flat_map(|file| &file.dependency);
        imports.find(|name| own(name) && unknown(name)).cloned()
    }

    /// The schema, once no file is missing.
    pub(crate) fn pool(self) -> Result<DescriptorPool, String> {
        // It has the well-known types.
        let mut pool = DescriptorPool::global();
        let mut files: Vec<FileDescriptorProto> = self.files.into_values().collect();
        files.retain(|file| pool.get_file_by_name(file.name()).is_none());
        pool.add_file_descriptor_protos(files).map_err(|error| error.to_string())?;
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::message::tests::pool;

    #[test]
    fn a_schema_is_made_of_files() {
        let all = pool();
        let mut descriptors = Descriptors::default();
        let own = all.get_file_by_name("shop.proto").unwrap().encode_to_vec();
        descriptors.add(&Files { files: vec![own.into()] }).unwrap();
        assert_eq!(descriptors.missing(), None, "well-known files are known");
        let made = descriptors.pool().unwrap();
        assert!(made.get_service_by_name("shop.Orders").is_some());
        assert!(made.get_message_by_name("google.protobuf.Timestamp").is_some());
    }

    #[test]
    fn imports_are_missing_until_they_are_added() {
        let file = |name: &str, imports: &[&str]| {
            let dependency = imports.iter().map(|name| (*name).to_owned()).collect();
            let name = Some(name.to_owned());
            FileDescriptorProto { name, dependency, ..FileDescriptorProto::default() }
                .encode_to_vec()
        };
        let mut descriptors = Descriptors::default();
        descriptors.add(&Files { files: vec![file("a.proto", &["b.proto"]).into()] }).unwrap();
        assert_eq!(descriptors.missing().as_deref(), Some("b.proto"));
        descriptors.add(&Files { files: vec![file("b.proto", &[]).into()] }).unwrap();
        assert_eq!(descriptors.missing(), None);
        let malformed = Files { files: vec![bytes::Bytes::from_static(b"\x0a\xff")] };
        assert!(descriptors.add(&malformed).is_err());
        let many = (0..=MAX_FILES).map(|at| file(&at.to_string(), &[]).into()).collect();
        let error = descriptors.add(&Files { files: many }).unwrap_err();
        assert_eq!(error, "a schema has at most 1000 files and 16 MiB");
    }

    #[test]
    fn questions_have_the_bytes_of_the_protocol() {
        let question = Some(Question::Symbol("a.B".to_owned()));
        assert_eq!(Request { question }.encode_to_vec(), b"\x22\x03a.B");
        let reply = Reply::decode(&b"\x3a\x06\x08\x05\x12\x02no"[..]).unwrap();
        let error = ReplyError { code: 5, message: "no".to_owned() };
        assert_eq!(reply.content, Some(Content::Error(error)));
    }
}
