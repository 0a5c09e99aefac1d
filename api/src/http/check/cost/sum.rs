//! Sums over the selections of a query.

/// What grows with the number of objects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scaled {
    /// In points.
    pub points: u64,
    /// The bytes of arguments.
    pub argument_bytes: u64,
}

/// What a selection set comes to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// Its fields, with those below them; never multiplied.
    pub selections: u64,
    /// In points.
    pub points: u64,
    /// The bytes of arguments.
    pub argument_bytes: u64,
    /// The part below `nodes` and `edges`, for one item of the page.
    pub of_items: Scaled,
    /// The most levels of fields below.
    pub field_levels: usize,
    /// The most levels of selection sets below.
    pub levels: usize,
    /// The most levels of the schema's lists below.
    pub schema_lists: usize,
}

impl Sum {
    /// Adds what another part comes to.
    pub fn add(&mut self, other: Self) {
        self.selections = self.selections.saturating_add(other.selections);
        self.points = self.points.saturating_add(other.points);
        self.argument_bytes = self.argument_bytes.saturating_add(other.argument_bytes);
        self.of_items.points = self.of_items.points.saturating_add(other.of_items.points);
        self.of_items.argument_bytes =
            self.of_items.argument_bytes.saturating_add(other.of_items.argument_bytes);
        self.field_levels = self.field_levels.max(other.field_levels);
        self.levels = self.levels.max(other.levels);
        self.schema_lists = self.schema_lists.max(other.schema_lists);
    }

    /// Below a page of so many items.
    pub fn scaled(&self, fixed: u64, items: u64) -> Scaled {
        let scale = |own: u64, of_items: u64| {
            own.saturating_mul(fixed).saturating_add(of_items.saturating_mul(items))
        };
        Scaled {
            points: scale(self.points, self.of_items.points),
            argument_bytes: scale(self.argument_bytes, self.of_items.argument_bytes),
        }
    }
}
