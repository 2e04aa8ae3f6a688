//! Differences of several nodes.

use std::collections::BTreeMap;

use super::{Attribute, Difference, Share};

impl Difference {
    /// The difference over all nodes. Values are those that differ most on each node: if an attribute has more,
    /// their numbers may be too low.
    #[must_use]
    pub fn merge(all: Vec<Self>) -> Self {
        let mut sum = Self::default();
        let mut attributes: BTreeMap<String, (BTreeMap<String, Share>, bool)> = BTreeMap::new();
        for one in all {
            sum.group += one.group;
            sum.rest += one.rest;
            sum.cut |= one.cut;
            sum.incomplete |= one.incomplete;
            sum.payload |= one.payload;
            for Attribute { field, values, more, .. } in one.attributes {
                let (shares, any_more) = attributes.entry(field).or_default();
                *any_more |= more;
                for Share { value, group, rest } in values {
                    let empty = Share { value: value.clone(), group: 0, rest: 0 };
                    let share = shares.entry(value).or_insert(empty);
                    share.group += group;
                    share.rest += rest;
                }
            }
        }
        let compared = (sum.group, sum.rest);
        let joined = |(field, (shares, more)): (String, (BTreeMap<String, Share>, bool))| {
            Attribute::new(&field, shares.into_values().collect(), more, compared)
        };
        sum.attributes = attributes.into_iter().map(joined).collect();
        sum.ranked()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attribute, Difference, Share};

    fn of_node(group: [u64; 2], rest: [u64; 2]) -> Difference {
        let share = |value: &str, at: usize| Share {
            value: value.to_owned(),
            group: group[at],
            rest: rest[at],
        };
        let (of_group, of_rest) = (group.iter().sum(), rest.iter().sum());
        let values = vec![share("a", 0), share("b", 1)];
        Difference {
            group: of_group,
            rest: of_rest,
            attributes: vec![Attribute::new("api", values, false, (of_group, of_rest))],
            ..Difference::default()
        }
    }

    #[test]
    fn nodes_add_up_and_the_sum_is_ranked_anew() {
        // Nothing differs on a node with so few.
        let few = of_node([2, 0], [1, 2]);
        assert_eq!(few.attributes[0].difference, 0.0);
        let sum = Difference::merge(vec![few, of_node([48, 0], [49, 48])]);
        assert_eq!((sum.group, sum.rest), (50, 100));
        let [api] = sum.attributes.as_slice() else { panic!("{sum:?}") };
        assert_eq!((api.difference, api.values.len()), (0.5, 2));
        assert_eq!((api.values[0].group, api.values[0].rest), (50, 50));
        // A node without failures, whose others are all alike, counts with all of them.
        let sum = Difference::merge(vec![of_node([0, 0], [100, 0]), of_node([50, 0], [50, 0])]);
        assert_eq!((sum.group, sum.rest), (50, 150));
        let api = &sum.attributes[0];
        assert_eq!((api.difference, api.values[0].group, api.values[0].rest), (0.0, 50, 150));
    }
}
