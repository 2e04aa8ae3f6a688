//! Which blocks of a piece have a term: an index of Tantivy's with one segment.
//!
//! Each block is one document of one field, whose terms were told apart before. Nothing is stored
//! in it but which document has which term.

use std::path::Path;
use std::sync::Arc;

use tantivy::directory::MmapDirectory;
use tantivy::index::SegmentReader;
use tantivy::schema::{
    Field, IndexRecordOption, Schema, TantivyDocument, TextFieldIndexing, TextOptions,
};
use tantivy::store::Compressor;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer, TokenizerManager};
use tantivy::{
    DocSet, Index, IndexSettings, InvertedIndexReader, SingleSegmentIndexWriter, TERMINATED, Term,
};

use crate::block::{Finished, SEPARATOR};

const FIELD: &str = "terms";
/// The term of blocks that count as having every term.
const EVERY: &[u8] = &[4];
/// What the writer takes as a hint for its tables; it is emptied by piece, not by this.
const MEMORY: usize = 64 << 20;

fn schema() -> (Schema, Field) {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(FIELD)
        .set_index_option(IndexRecordOption::Basic)
        .set_fieldnorms(false);
    let mut builder = Schema::builder();
    let options = TextOptions::default().set_indexing_options(indexing);
    let field = builder.add_text_field(FIELD, options);
    (builder.build(), field)
}

/// Writes the terms of blocks, in the order of the blocks.
pub(crate) struct Writer {
    inner: SingleSegmentIndexWriter,
    field: Field,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins in an empty folder.
    pub(crate) fn create(folder: &Path) -> tantivy::Result<Self> {
        let (schema, field) = schema();
        let tokenizers = TokenizerManager::new();
        tokenizers.register(FIELD, Separated::default());
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let builder = Index::builder().schema(schema).settings(settings).tokenizers(tokenizers);
        let directory = MmapDirectory::open(folder)?;
        let inner = builder.single_segment_index_writer(directory, MEMORY)?;
        Ok(Self { inner, field })
    }

    /// Bytes of memory taken.
    pub(crate) fn memory(&self) -> usize {
        self.inner.mem_usage()
    }

    pub(crate) fn add(&mut self, block: &Finished<'_>) -> tantivy::Result<()> {
        let mut document = TantivyDocument::default();
        document.add_text(self.field, block.terms);
        if block.overflowed {
            document.add_text(self.field, String::from_utf8_lossy(EVERY));
        }
        self.inner.add_document(document)
    }

    pub(crate) fn finish(self) -> tantivy::Result<()> {
        self.inner.finalize().map(drop)
    }
}

/// Looks terms up.
pub(crate) struct Reader {
    inverted: Arc<InvertedIndexReader>,
    field: Field,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn open(folder: &Path) -> tantivy::Result<Self> {
        let index = Index::open(MmapDirectory::open(folder)?)?;
        let field = index.schema().get_field(FIELD)?;
        let segments = index.searchable_segments()?;
        let segment = segments.first().ok_or_else(|| {
            tantivy::TantivyError::InvalidArgument("an index without a segment".to_owned())
        })?;
        let inverted = SegmentReader::open(segment)?.inverted_index(field)?;
        Ok(Self { inverted, field })
    }

    /// Calls `each` with every block that may have a term.
    pub(crate) fn blocks(&self, term: &[u8], mut each: impl FnMut(usize)) -> tantivy::Result<()> {
        for term in [term, EVERY] {
            let text = std::str::from_utf8(term).unwrap_or_default();
            let term = Term::from_field_text(self.field, text);
            let Some(mut found) = self.inverted.read_postings(&term, IndexRecordOption::Basic)?
            else {
                continue;
            };
            while found.doc() != TERMINATED {
                each(found.doc() as usize);
                found.advance();
            }
        }
        Ok(())
    }
}

/// Takes terms apart at [`SEPARATOR`].
#[derive(Clone, Default)]
struct Separated {
    token: Token,
}

struct Stream<'a> {
    rest: &'a str,
    token: &'a mut Token,
}

impl Tokenizer for Separated {
    type TokenStream<'a> = Stream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Stream<'a> {
        self.token.reset();
        Stream { rest: text, token: &mut self.token }
    }
}

impl TokenStream for Stream<'_> {
    fn advance(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let length = memchr::memchr(SEPARATOR, self.rest.as_bytes()).unwrap_or(self.rest.len());
        self.token.text.clear();
        self.token.text.push_str(&self.rest[..length]);
        self.token.position = self.token.position.wrapping_add(1);
        self.rest = self.rest.get(length + 1..).unwrap_or_default();
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
