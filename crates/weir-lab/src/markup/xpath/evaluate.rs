//! Evaluation of expressions.

use super::super::document::{Document, Kind, Name};
use super::{Axis, Expression, Function, Holds, MAX_VISITED, Operator, Options, Step, Test};
use crate::budget::Budget;
use crate::pattern::Pattern;
use std::cmp::Ordering;

/// A node: of the tree, or an attribute of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    node: usize,
    /// 1 + index of an attribute; 0 is the node itself.
    attribute: usize,
}

#[derive(Clone, Debug)]
enum Value {
    Nodes(Vec<Found>),
    Bool(bool),
    Number(f64),
    Text(String),
}

/// What an expression is evaluated with.
struct Context<'d> {
    document: &'d Document,
    options: &'d Options,
    visits: usize,
}

/// The context node, its position from 1, and the number of nodes.
type At = (Found, usize, usize);

const TOO_MANY: &str = "the expression visits too many nodes";

const ROOT: At = (Found { node: 0, attribute: 0 }, 1, 1);

pub(super) fn texts(
    expression: &Expression,
    document: &Document,
    options: &Options,
    most: usize,
) -> Result<Vec<Option<String>>, String> {
    let mut context = Context { document, options, visits: MAX_VISITED };
    let value = context.value(expression, ROOT)?;
    Ok(match value {
        Value::Nodes(mut nodes) => {
            nodes.truncate(most);
            let mut budget = Budget::default();
            let mut content = |found| {
                let text = context.content(found)?;
                budget.take(text.as_ref().map_or(0, String::len))?;
                Ok::<_, String>(text)
            };
            nodes.into_iter().map(&mut content).collect::<Result<_, _>>()?
        }
        other => vec![Some(context.text(&other)?)],
    })
}

pub(super) fn holds(
    expression: &Expression,
    document: &Document,
    options: &Options,
) -> Result<Holds, String> {
    let mut context = Context { document, options, visits: MAX_VISITED };
    let value = context.value(expression, ROOT)?;
    Ok(match &value {
        Value::Nodes(nodes) => Holds::Nodes(!nodes.is_empty()),
        other => Holds::Value(truth(other)),
    })
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Nodes(nodes) => !nodes.is_empty(),
        Value::Bool(value) => *value,
        Value::Number(number) => *number != 0.0 && !number.is_nan(),
        Value::Text(text) => !text.is_empty(),
    }
}

fn number_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        number.to_string()
    }
}

impl Context<'_> {
    /// What an extractor takes of a node. In XPath 1, of an element only its first text.
    fn content(&mut self, found: Found) -> Result<Option<String>, String> {
        let node = &self.document.nodes[found.node];
        if found.attribute > 0 || self.options.version2 {
            return self.string(found).map(Some);
        }
        Ok(match &node.kind {
            Kind::Element { .. } => {
                match node.children.first().map(|first| &self.document.nodes[*first].kind) {
                    Some(Kind::Text(text) | Kind::Comment(text)) => Some(text.clone()),
                    _ => None,
                }
            }
            Kind::Root => None,
            Kind::Text(text) | Kind::Comment(text) => Some(text.clone()),
        })
    }

    /// Accounts for visits.
    fn visit(&mut self, visits: usize) -> Result<(), String> {
        self.visits = self.visits.checked_sub(visits).ok_or(TOO_MANY)?;
        Ok(())
    }

    fn string(&mut self, found: Found) -> Result<String, String> {
        match (&self.document.nodes[found.node].kind, found.attribute.checked_sub(1)) {
            (Kind::Element { attributes, .. }, Some(at)) => {
                let value = attributes.get(at).map(|(_, value)| value.as_str()).unwrap_or_default();
                self.visit(1 + value.len() / 64)?;
                Ok(value.to_owned())
            }
            _ => {
                let string = self.document.string(found.node, &mut self.visits);
                string.ok_or_else(|| TOO_MANY.to_owned())
            }
        }
    }

    fn text(&mut self, value: &Value) -> Result<String, String> {
        Ok(match value {
            Value::Nodes(nodes) => match nodes.first() {
                Some(first) => self.string(*first)?,
                None => String::new(),
            },
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number_text(*number),
            Value::Text(text) => text.clone(),
        })
    }

    fn number(&mut self, value: &Value) -> Result<f64, String> {
        Ok(match value {
            Value::Bool(value) => f64::from(u8::from(*value)),
            Value::Number(number) => *number,
            other => self.text(other)?.trim().parse().unwrap_or(f64::NAN),
        })
    }

    fn value(&mut self, expression: &Expression, at: At) -> Result<Value, String> {
        self.visit(1)?;
        Ok(match expression {
            Expression::Text(text) => Value::Text(text.clone()),
            Expression::Number(number) => Value::Number(*number),
            Expression::Negative(inner) => {
                let value = self.value(inner, at)?;
                Value::Number(-self.number(&value)?)
            }
            Expression::Path { start, absolute, steps } => {
                let mut nodes = match start {
                    Some(start) => {
                        let Value::Nodes(nodes) = self.value(&start.0, at)? else {
                            return Err("a step needs nodes".to_owned());
                        };
                        self.filter(nodes, &start.1)?
                    }
                    None if *absolute => vec![ROOT.0],
                    None => vec![at.0],
                };
                for step in steps {
                    nodes = self.step(&nodes, step)?;
                }
                Value::Nodes(nodes)
            }
            Expression::Call(function, arguments) => self.call(*function, arguments, at)?,
            Expression::Binary(operator, both) => self.binary(*operator, both, at)?,
        })
    }

    fn step(&mut self, nodes: &[Found], step: &Step) -> Result<Vec<Found>, String> {
        let mut all = Vec::new();
        for node in nodes {
            let on_axis = self.axis(*node, step.axis)?;
            let named: Vec<Found> =
                on_axis.into_iter().filter(|found| self.is(*found, step)).collect();
            all.extend(self.filter(named, &step.predicates)?);
        }
        // In the order of the document, each once.
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Nodes on an axis, the nearest first.
    fn axis(&mut self, from: Found, axis: Axis) -> Result<Vec<Found>, String> {
        let nodes = &self.document.nodes;
        let found = |node: usize| Found { node, attribute: 0 };
        let parent = if from.attribute > 0 { Some(from.node) } else { nodes[from.node].parent };
        let inside = |node: usize| {
            let mut all = Vec::new();
            let mut open: Vec<usize> = nodes[node].children.iter().rev().copied().collect();
            while let Some(at) = open.pop() {
                all.push(found(at));
                open.extend(nodes[at].children.iter().rev());
            }
            all
        };
        let ancestors = || -> Vec<Found> {
            std::iter::successors(parent, |at| nodes[*at].parent).map(found).collect()
        };
        let siblings = |after: bool| -> Vec<Found> {
            let Some(parent) = parent.filter(|_| from.attribute == 0) else { return Vec::new() };
            let all = &nodes[parent].children;
            // Nodes are numbered in the order of the document.
            let own = all.binary_search(&from.node).unwrap_or(0);
            match after {
                true => all[own + 1..].iter().map(|at| found(*at)).collect(),
                false => all[..own].iter().rev().map(|at| found(*at)).collect(),
            }
        };
        let is_node = from.attribute == 0;
        let result = match axis {
            Axis::Itself => vec![from],
            Axis::Child if is_node => {
                nodes[from.node].children.iter().map(|at| found(*at)).collect()
            }
            Axis::Descendant if is_node => inside(from.node),
            Axis::DescendantOrSelf => {
                let inner = if is_node { inside(from.node) } else { Vec::new() };
                std::iter::once(from).chain(inner).collect()
            }
            Axis::Parent => parent.map(found).into_iter().collect(),
            Axis::Ancestor => ancestors(),
            Axis::AncestorOrSelf => std::iter::once(from).chain(ancestors()).collect(),
            Axis::FollowingSibling => siblings(true),
            Axis::PrecedingSibling => siblings(false),
            Axis::Following => {
                let mut last = from.node;
                while let Some(child) = nodes[last].children.last() {
                    last = *child;
                }
                (last + 1..nodes.len()).map(found).collect()
            }
            Axis::Preceding => {
                let above = ancestors();
                let before = (1..from.node).rev().map(found);
                // Ancestors are in the reverse order, too.
                let is_above = |node: &Found| above.binary_search_by(|a| node.cmp(a)).is_ok();
                before.filter(|node| !is_above(node)).collect()
            }
            Axis::Attribute => match &nodes[from.node].kind {
                Kind::Element { attributes, .. } if is_node => (1..=attributes.len())
                    .map(|attribute| Found { node: from.node, attribute })
                    .collect(),
                _ => Vec::new(),
            },
            Axis::Child | Axis::Descendant => Vec::new(),
        };
        self.visit(result.len())?;
        Ok(result)
    }

    fn name(&self, found: Found) -> Option<&Name> {
        match (&self.document.nodes[found.node].kind, found.attribute.checked_sub(1)) {
            (Kind::Element { attributes, .. }, Some(at)) => {
                attributes.get(at).map(|(name, _)| name)
            }
            (Kind::Element { name, .. }, None) => Some(name),
            _ => None,
        }
    }

    /// Whether a node is one that a step means.
    fn is(&self, found: Found, step: &Step) -> bool {
        let kind = &self.document.nodes[found.node].kind;
        let is_node = found.attribute == 0;
        match &step.test {
            Test::Any => true,
            Test::Text => is_node && matches!(kind, Kind::Text(_)),
            Test::Comment => is_node && matches!(kind, Kind::Comment(_)),
            Test::Name { prefix, local } => {
                // Other axes than that of attributes mean elements.
                let Some(name) = self.name(found) else { return false };
                if step.axis != Axis::Attribute && !is_node {
                    return false;
                }
                let same_name = local == "*"
                    || *local == name.local
                    || self.options.tolerant && local.eq_ignore_ascii_case(&name.local);
                same_name && self.is_in_namespace(name, prefix, local == "*")
            }
        }
    }

    fn is_in_namespace(&self, name: &Name, prefix: &str, any_name: bool) -> bool {
        if !self.options.namespaces {
            return prefix.is_empty() || *prefix == name.prefix;
        }
        match prefix {
            "" if any_name => true,
            "*" => true,
            "" => name.namespace.is_empty(),
            prefix => match self.options.prefixes.get(prefix) {
                Some(namespace) => *namespace == name.namespace,
                None => *prefix == name.prefix,
            },
        }
    }

    fn filter(
        &mut self,
        mut nodes: Vec<Found>,
        predicates: &[Expression],
    ) -> Result<Vec<Found>, String> {
        for predicate in predicates {
            let count = nodes.len();
            let mut kept = Vec::new();
            for (at, node) in nodes.into_iter().enumerate() {
                let keeps = match self.value(predicate, (node, at + 1, count))? {
                    Value::Number(number) => number == (at + 1) as f64,
                    other => truth(&other),
                };
                if keeps {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    fn binary(
        &mut self,
        operator: Operator,
        both: &(Expression, Expression),
        at: At,
    ) -> Result<Value, String> {
        let left = self.value(&both.0, at)?;
        if matches!(operator, Operator::And | Operator::Or) {
            let left = truth(&left);
            let is_decided = left == (operator == Operator::Or);
            return Ok(Value::Bool(match is_decided {
                true => left,
                false => truth(&self.value(&both.1, at)?),
            }));
        }
        let right = self.value(&both.1, at)?;
        Ok(match operator {
            Operator::Union => match (left, right) {
                (Value::Nodes(mut nodes), Value::Nodes(others)) => {
                    nodes.extend(others);
                    nodes.sort_unstable();
                    nodes.dedup();
                    Value::Nodes(nodes)
                }
                _ => return Err("`|` needs nodes".to_owned()),
            },
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => {
                let (a, b) = (self.number(&left)?, self.number(&right)?);
                Value::Number(match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                    _ => a % b,
                })
            }
            comparison => Value::Bool(self.compare(comparison, &left, &right)?),
        })
    }

    /// Of nodes, one for which the comparison holds is sufficient.
    fn compare(&mut self, operator: Operator, left: &Value, right: &Value) -> Result<bool, String> {
        self.visit(1)?;
        match (left, right) {
            (Value::Nodes(nodes), other) if !matches!(other, Value::Bool(_)) => {
                for node in nodes {
                    let text = Value::Text(self.string(*node)?);
                    if self.compare(operator, &text, other)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (other, Value::Nodes(nodes)) if !matches!(other, Value::Bool(_)) => {
                for node in nodes {
                    let text = Value::Text(self.string(*node)?);
                    if self.compare(operator, other, &text)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => self.compare_single(operator, left, right),
        }
    }

    fn compare_single(
        &mut self,
        operator: Operator,
        left: &Value,
        right: &Value,
    ) -> Result<bool, String> {
        let is_equality = matches!(operator, Operator::Equal | Operator::NotEqual);
        let order = match (left, right) {
            (Value::Bool(_), _) | (_, Value::Bool(_)) if is_equality => {
                Some(truth(left).cmp(&truth(right)))
            }
            (Value::Text(left), Value::Text(right)) if is_equality => Some(left.cmp(right)),
            _ => self.number(left)?.partial_cmp(&self.number(right)?),
        };
        Ok(match operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }

    fn call(
        &mut self,
        function: Function,
        arguments: &[Expression],
        at: At,
    ) -> Result<Value, String> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.value(argument, at)?);
        }
        let own = Value::Nodes(vec![at.0]);
        let first = values.first().unwrap_or(&own);
        let first_node = || match first {
            Value::Nodes(nodes) => nodes.first().and_then(|node| self.name(*node)),
            _ => None,
        };
        let number = Value::Number;
        Ok(match function {
            Function::Last => number(at.2 as f64),
            Function::Position => number(at.1 as f64),
            Function::Count => match first {
                Value::Nodes(nodes) => number(nodes.len() as f64),
                _ => return Err("`count` needs nodes".to_owned()),
            },
            Function::Sum => match first {
                Value::Nodes(nodes) => {
                    let mut sum = 0.0;
                    for node in nodes {
                        let text = Value::Text(self.string(*node)?);
                        sum += self.number(&text)?;
                    }
                    number(sum)
                }
                _ => return Err("`sum` needs nodes".to_owned()),
            },
            Function::Name => {
                Value::Text(first_node().map_or_else(
                    String::new,
                    |name| match name.prefix.as_str() {
                        "" => name.local.clone(),
                        prefix => format!("{prefix}:{}", name.local),
                    },
                ))
            }
            Function::LocalName => {
                Value::Text(first_node().map(|name| name.local.clone()).unwrap_or_default())
            }
            Function::NamespaceUri => {
                Value::Text(first_node().map(|name| name.namespace.clone()).unwrap_or_default())
            }
            Function::String => Value::Text(self.text(first)?),
            Function::Number => number(self.number(first)?),
            Function::Boolean => Value::Bool(truth(first)),
            Function::Not => Value::Bool(!truth(first)),
            Function::True => Value::Bool(true),
            Function::False => Value::Bool(false),
            Function::Floor => number(self.number(first)?.floor()),
            Function::Ceiling => number(self.number(first)?.ceil()),
            Function::Round => number((self.number(first)? + 0.5).floor()),
            Function::StringLength => number(self.text(first)?.chars().count() as f64),
            Function::NormalizeSpace => {
                Value::Text(self.text(first)?.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            other => self.call_with_texts(other, &values)?,
        })
    }

    /// A function of texts.
    fn call_with_texts(&mut self, function: Function, values: &[Value]) -> Result<Value, String> {
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            texts.push(self.text(value)?);
        }
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        Ok(match function {
            Function::LowerCase => Value::Text(text(0).to_lowercase()),
            Function::UpperCase => Value::Text(text(0).to_uppercase()),
            Function::Concat => Value::Text(texts.concat()),
            Function::StartsWith => Value::Bool(text(0).starts_with(text(1))),
            Function::EndsWith => Value::Bool(text(0).ends_with(text(1))),
            Function::Contains => Value::Bool(text(0).contains(text(1))),
            Function::Matches => {
                Value::Bool(Pattern::cached(text(1))?.is_found(text(0).as_bytes())?)
            }
            Function::SubstringBefore => Value::Text(
                text(0).split_once(text(1)).map_or_else(String::new, |(part, _)| part.to_owned()),
            ),
            Function::SubstringAfter => Value::Text(
                text(0).split_once(text(1)).map_or_else(String::new, |(_, part)| part.to_owned()),
            ),
            Function::Substring => {
                let mut rounded = |at: usize, default: f64| match values.get(at) {
                    Some(value) => self.number(value).map(f64::round),
                    None => Ok(default),
                };
                let (from, length) = (rounded(1, f64::NAN)?, rounded(2, f64::INFINITY)?);
                let inside = |at: usize| at as f64 >= from && (at as f64) < from + length;
                let characters = (1..).zip(text(0).chars().collect::<Vec<_>>());
                Value::Text(characters.filter(|(at, _)| inside(*at)).map(|(_, c)| c).collect())
            }
            Function::Translate => {
                self.visit(text(0).len().saturating_mul(text(1).len()) / 64)?;
                let (from, to): (Vec<char>, Vec<char>) =
                    (text(1).chars().collect(), text(2).chars().collect());
                let replaced = |character: char| match from.iter().position(|c| *c == character) {
                    Some(at) => to.get(at).copied(),
                    None => Some(character),
                };
                Value::Text(text(0).chars().filter_map(replaced).collect())
            }
            _ => return Err("the function is not supported here".to_owned()),
        })
    }
}
