//! Sums over the selections of a query.

/// The part of a cost that grows with the number of objects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scaled {
    /// In points.
    pub points: u64,
    /// The objects and look-ups: fields with a selection or an argument.
    pub objects: u64,
    /// The bytes of arguments.
    pub argument_bytes: u64,
}

/// The sum of a selection set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// Its fields, with those below them; never multiplied.
    pub selections: u64,
    /// The part that counts once.
    pub own: Scaled,
    /// The part below `nodes` and `edges`, for one item of the page.
    pub of_items: Scaled,
    /// The most levels of fields below.
    pub field_levels: usize,
    /// The most levels of selection sets below.
    pub levels: usize,
    /// The most levels of the schema's lists below.
    pub schema_lists: usize,
}

impl Scaled {
    /// The sum of this, `by` times, and the other, `other_by` times.
    pub fn plus(self, by: u64, other: Self, other_by: u64) -> Self {
        let sum = |one: u64, two: u64| {
            one.saturating_mul(by).saturating_add(two.saturating_mul(other_by))
        };
        Self {
            points: sum(self.points, other.points),
            objects: sum(self.objects, other.objects),
            argument_bytes: sum(self.argument_bytes, other.argument_bytes),
        }
    }
}

impl Sum {
    /// Adds another part.
    pub fn add(&mut self, other: Self) {
        self.selections = self.selections.saturating_add(other.selections);
        self.own = self.own.plus(1, other.own, 1);
        self.of_items = self.of_items.plus(1, other.of_items, 1);
        self.field_levels = self.field_levels.max(other.field_levels);
        self.levels = self.levels.max(other.levels);
        self.schema_lists = self.schema_lists.max(other.schema_lists);
    }

    /// The cost below so many objects, with so many items of a page in each.
    pub fn scaled(&self, objects: u64, items: u64) -> Scaled {
        self.own.plus(objects, self.of_items, items)
    }
}
