//! Reading a page: its blocks and their marks.

/// What a block is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A complete configuration or scenario, that stands for itself.
    Complete,
    /// A configuration that refers to what is elsewhere.
    Fragment,
    /// YAML of another program.
    Foreign,
    /// A file, replaced or appended to.
    File { name: String, appended: bool },
    /// Commands.
    Commands { background: bool, exit: u8, compared: bool },
    /// Commands whose options are checked.
    NotRun,
    /// Neither a file nor commands.
    Shown,
}

/// A block of a page.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// `docs/guide/run.md:12`.
    pub(super) at: String,
    pub(super) language: String,
    pub(super) kind: Kind,
    pub(super) text: String,
    /// Files that the reader has.
    pub(super) given: Vec<String>,
}

/// A page.
pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
}

/// First words of lines that are commands.
const PROGRAMS: [&str; 8] =
    ["weir", "curl", "make", "sudo", "docker", "kubectl", "helm", "systemctl"];

impl Page {
    /// The blocks, or everything that is wrong with their marks.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Vec<String>> {
        let lines: Vec<&str> = text.lines().collect();
        let (mut blocks, mut problems) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            let place = format!("{name}:{}", at + 1);
            let indent = line.len() - line.trim_start().len();
            let Some(info) = line.trim_start().strip_prefix("```") else {
                if is_indented_command(&lines, at) {
                    problems.push(format!("{place}: `{}` is not in a fence", line.trim()));
                }
                at += 1;
                continue;
            };
            let end = (at + 1..lines.len()).find(|end| lines[*end].trim() == "```");
            let Some(end) = end else {
                problems.push(format!("{place}: the fence is not closed"));
                break;
            };
            let body = lines[at + 1..end].iter();
            let body = body.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n");
            let language = info.split_whitespace().next().unwrap_or_default();
            match block(&place, language, body.collect(), &marks(&lines[..at])) {
                Ok(block) => blocks.push(block),
                Err(problem) => problems.push(format!("{place}: {problem}")),
            }
            at = end + 1;
        }
        if problems.is_empty() { Ok(Self { blocks }) } else { Err(problems) }
    }
}

/// Commands belong into fences, which say what is done with them.
fn is_indented_command(lines: &[&str], at: usize) -> bool {
    let Some(text) = lines[at].strip_prefix("    ") else { return false };
    let program = text.trim_start_matches("$ ").split(' ').next().unwrap_or_default();
    let begins = at == 0 || lines[at - 1].is_empty();
    begins && PROGRAMS.contains(&program)
}

/// The comments directly above a fence, in the order of the page.
fn marks<'a>(before: &[&'a str]) -> Vec<&'a str> {
    let comments = before.iter().rev().map_while(|line| {
        line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"))
    });
    let mut marks: Vec<&str> = comments.map(str::trim).collect();
    marks.reverse();
    marks
}

fn block(at: &str, language: &str, text: String, marks: &[&str]) -> Result<Block, String> {
    if language.is_empty() {
        return Err("the block has no language".to_owned());
    }
    let mut given = Vec::new();
    let is_console = language == "console";
    let mut kind = match language {
        "yaml" => Kind::Complete,
        "sh" | "console" => Kind::Commands { background: false, exit: 0, compared: is_console },
        _ => Kind::Shown,
    };
    for mark in marks {
        let (name, value) = mark.split_once(':').unwrap_or((mark, ""));
        let value = value.trim();
        match (name.trim(), &mut kind) {
            ("given", _) => given.extend(value.split_whitespace().map(str::to_owned)),
            ("file", _) => kind = Kind::File { name: value.to_owned(), appended: false },
            ("continues", _) => kind = Kind::File { name: value.to_owned(), appended: true },
            ("fragment", Kind::Complete) => kind = Kind::Fragment,
            ("not weir", Kind::Complete) => kind = Kind::Foreign,
            ("not weir", Kind::File { .. }) => {}
            ("not run", Kind::Commands { .. }) if value.is_empty() => {
                return Err("`not run` needs a reason".to_owned());
            }
            ("not run", Kind::Commands { .. }) => kind = Kind::NotRun,
            ("background", Kind::Commands { background, .. }) => *background = true,
            ("output", Kind::Commands { compared, .. }) => *compared = false,
            ("exit", Kind::Commands { exit, .. }) => {
                *exit = value.parse().map_err(|_| format!("`{value}` is no exit code"))?;
            }
            _ => return Err(format!("unknown mark `{mark}` of a block of {language}")),
        }
    }
    let (at, language) = (at.to_owned(), language.to_owned());
    Ok(Block { at, language, kind, text, given })
}

impl Block {
    /// The commands of a shell block, and the output that it shows.
    pub(super) fn commands(&self) -> (String, String) {
        if self.language != "console" {
            return (self.text.clone(), String::new());
        }
        let (mut commands, mut output) = (String::new(), String::new());
        let mut continued = false;
        for line in self.text.lines() {
            let command = line.strip_prefix("$ ").or(line.strip_prefix("> ").filter(|_| continued));
            match command.or(Some(line).filter(|_| continued)) {
                Some(command) => {
                    continued = command.ends_with('\\');
                    commands.push_str(command);
                    commands.push('\n');
                }
                None => {
                    output.push_str(line);
                    output.push('\n');
                }
            }
        }
        (commands, output)
    }
}

/// The `weir` commands of a shell text, as words.
pub(super) fn weir_commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let commands = lines.flat_map(|line| {
        let words = words(line);
        let parts = words.split(|word| matches!(word.as_str(), "|" | "&&" | "||" | ";" | "&"));
        parts.map(<[String]>::to_vec).collect::<Vec<_>>()
    });
    commands.filter(|words| words.first().is_some_and(|word| word == "weir")).collect()
}

/// The words of a line. A quoted one keeps a quote, so that its content is no option.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) => {
                word.push(letter);
                quote = (letter != open).then_some(open);
            }
            (None, '\'' | '"') => {
                word.push(letter);
                quote = Some(letter);
            }
            (None, '#') if word.is_empty() => break,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
