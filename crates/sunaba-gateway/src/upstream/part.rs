//! One part of a message, as far as it tells where its content is.

/// What was found in a value and everything below it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Inside {
    /// Pictures and files.
    pub(super) count: u64,
    /// The bytes of the pictures. A file's pages count as text and as pictures; its bytes, which are more than
    /// both in all but made-up files, are left among the text.
    pub(super) image_bytes: u64,
    /// What is to be refused.
    pub(super) pointed_at: Option<&'static str>,
}

impl Inside {
    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.image_bytes = self.image_bytes.saturating_add(other.image_bytes);
        self.pointed_at = self.pointed_at.or(other.pointed_at);
    }

    fn refused(what: &'static str) -> Self {
        Self { pointed_at: Some(what), ..Self::default() }
    }
}

/// What a value is, as far as it matters to the object that it is part of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Is {
    /// Null counts as not there.
    #[default]
    Absent,
    /// A text that is no link, of so many bytes.
    Inline(u64),
    /// A link, or no text at all.
    Other,
}

/// The words that say what a part or its source is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    None,
    /// A tool's input, which is the model's own words.
    ToolInput,
    /// `image`.
    Image,
    /// `document`.
    Document,
    /// `input_image`, `computer_screenshot`.
    InputImage,
    /// `image_url`.
    ImageUrl,
    /// `input_file`.
    InputFile,
    /// `file`.
    File,
    /// Something that lies in the vendor's keeping.
    Upload,
    /// A source of bytes.
    Base64,
    /// A source of text, or of more parts.
    Words,
}

impl Word {
    pub(super) fn of(text: &str) -> Self {
        match text {
            "tool_use" | "function_call" => Self::ToolInput,
            "image" => Self::Image,
            "document" => Self::Document,
            "input_image" | "computer_screenshot" => Self::InputImage,
            "image_url" => Self::ImageUrl,
            "input_file" => Self::InputFile,
            "file" => Self::File,
            "container_upload" => Self::Upload,
            "base64" => Self::Base64,
            "text" | "content" => Self::Words,
            _ => Self::None,
        }
    }
}

/// The fields of an object that tell where its content is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    pub(super) kind: Word,
    pub(super) data: Is,
    pub(super) url: Is,
    pub(super) file_data: Is,
    pub(super) file_url: Is,
    pub(super) file_id: Is,
    pub(super) image_url: Is,
}

impl Own {
    /// Whether it names a place where content could be fetched from.
    fn points(&self) -> bool {
        [self.url, self.file_url, self.file_id].iter().any(|place| *place != Is::Absent)
    }
}

/// A value that was gone through.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) is: Is,
    pub(super) word: Word,
    pub(super) own: Own,
    pub(super) inside: Inside,
}

/// The parts of an object that have parts of their own.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) own: Own,
    pub(super) source: Own,
    pub(super) image: Own,
    pub(super) file: Own,
    pub(super) inside: Inside,
    /// Whether a field that matters was named twice.
    pub(super) is_double: bool,
}

impl Parts {
    pub(super) fn take(&mut self, field: Field, found: Found, seen: &mut u16) {
        let bit = 1 << (field as u16);
        self.is_double |= field != Field::Other && *seen & bit != 0;
        *seen |= bit;
        match field {
            Field::Type => self.own.kind = found.word,
            Field::Data => self.own.data = found.is,
            Field::Url => self.own.url = found.is,
            Field::FileData => self.own.file_data = found.is,
            Field::FileUrl => self.own.file_url = found.is,
            Field::FileId => self.own.file_id = found.is,
            Field::ImageUrl => (self.own.image_url, self.image) = (found.is, found.own),
            Field::Source => self.source = found.own,
            Field::File => self.file = found.own,
            Field::Other => {}
        }
        self.inside.add(found.inside);
    }

    /// What the object comes to.
    pub(super) fn judged(&self) -> Inside {
        let own = &self.own;
        if own.kind == Word::ToolInput {
            return Inside::default();
        }
        if self.is_double {
            return Inside::refused("part that names a field twice");
        }
        let inline = |data: Is, points: bool, what: &'static str| match data {
            Is::Inline(size) if !points => {
                let image_bytes = if what == "image" { size } else { 0 };
                Inside { count: 1, image_bytes, pointed_at: None }
            }
            Is::Inline(_) | Is::Other | Is::Absent => Inside::refused(what),
        };
        let sourced = |what| {
            let source = &self.source;
            inline(source.data, own.points() || source.points() || source.kind != Word::Base64, what)
        };
        match own.kind {
            Word::Image => sourced("image"),
            Word::Document if self.source.kind == Word::Words => {
                if own.points() || self.source.points() {
                    Inside::refused("file")
                } else {
                    self.inside
                }
            }
            Word::Document => sourced("file"),
            Word::InputImage => inline(own.image_url, own.points(), "image"),
            Word::ImageUrl => {
                let image = Own { url: Is::Absent, ..self.image };
                inline(self.image.url, own.points() || image.points(), "image")
            }
            Word::InputFile => inline(own.file_data, own.points(), "file"),
            Word::File => inline(self.file.file_data, own.points() || self.file.points(), "file"),
            Word::Upload => Inside::refused("file"),
            Word::None | Word::ToolInput | Word::Base64 | Word::Words => self.inside,
        }
    }
}

/// A field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Type,
    Data,
    Url,
    FileData,
    FileUrl,
    FileId,
    ImageUrl,
    Source,
    File,
    Other,
}
