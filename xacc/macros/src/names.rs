//! Names that a body binds, and what it must not do.

use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{Error, Expr, ExprAsync, ExprBreak, ExprClosure, ExprContinue, ExprForLoop, ExprLoop, ExprReturn, ExprTry};
use syn::{ExprWhile, Ident, Item, Label, Lifetime, PatIdent};

/// Finds the names that patterns of the body bind, anywhere in it, and refuses control flow that
/// leaves an iteration.
pub(crate) struct Names<'a> {
    variables: &'a [Ident],
    pub(crate) bound: BTreeSet<String>,
    pub(crate) errors: Vec<Error>,
    /// In a closure or an `async` block, which `return` and `?` end.
    closures: usize,
    /// In a loop of the body, which `break` and `continue` without a label concern.
    loops: usize,
    labels: Vec<Lifetime>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(body: &Expr, variables: &'a [Ident]) -> Self {
        let (bound, errors, labels) = Default::default();
        let mut names = Self { variables, bound, errors, closures: 0, loops: 0, labels };
        names.visit_expr(body);
        names
    }

    /// An expression uses a name that changes from one iteration to the next, or is unknown outside
    /// of the body.
    pub(crate) fn varies(&self, e: &Expr) -> bool {
        mentions(e, &|name| self.variables.contains(name) || self.bound.contains(&name.to_string()))
    }

    fn refuse(&mut self, at: &impl quote::ToTokens, what: &str) {
        self.errors.push(Error::new_spanned(at, format!("`{what}` would leave the loop: each element is computed")));
    }

    fn in_loop(&mut self, label: Option<&Label>, inside: impl FnOnce(&mut Self)) {
        self.labels.extend(label.map(|l| l.name.clone()));
        self.loops += 1;
        inside(self);
        self.loops -= 1;
        if label.is_some() {
            self.labels.pop();
        }
    }

    fn in_closure(&mut self, inside: impl FnOnce(&mut Self)) {
        let outside = (std::mem::take(&mut self.loops), std::mem::take(&mut self.labels));
        self.closures += 1;
        inside(self);
        self.closures -= 1;
        (self.loops, self.labels) = outside;
    }

    fn leaves(&self, label: Option<&Lifetime>) -> bool {
        match label {
            Some(label) => !self.labels.contains(label),
            None => self.loops == 0,
        }
    }
}

/// Some path of one segment in an expression is a name that `is` accepts.
pub(crate) fn mentions(e: &Expr, is: &dyn Fn(&Ident) -> bool) -> bool {
    struct Search<'a>(&'a dyn Fn(&Ident) -> bool, bool);
    impl<'ast> Visit<'ast> for Search<'_> {
        fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
            self.1 |= path.path.get_ident().is_some_and(self.0);
        }
        // What a macro does with names is unknown.
        fn visit_macro(&mut self, _: &'ast syn::Macro) {
            self.1 = true;
        }
    }
    let mut search = Search(is, false);
    search.visit_expr(e);
    search.1
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        let name = &pattern.ident;
        if self.variables.contains(name) {
            let text = format!("`{name}` is a variable of the loop: name this one otherwise");
            self.errors.push(Error::new(name.span(), text));
        }
        self.bound.insert(name.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_return(&mut self, e: &'ast ExprReturn) {
        if self.closures == 0 {
            self.refuse(&e.return_token, "return");
        }
        visit::visit_expr_return(self, e);
    }

    fn visit_expr_try(&mut self, e: &'ast ExprTry) {
        if self.closures == 0 {
            self.refuse(&e.question_token, "?");
        }
        visit::visit_expr_try(self, e);
    }

    fn visit_expr_break(&mut self, e: &'ast ExprBreak) {
        if self.leaves(e.label.as_ref()) {
            self.refuse(&e.break_token, "break");
        }
        visit::visit_expr_break(self, e);
    }

    fn visit_expr_continue(&mut self, e: &'ast ExprContinue) {
        if self.leaves(e.label.as_ref()) {
            self.refuse(&e.continue_token, "continue");
        }
    }

    fn visit_expr_for_loop(&mut self, e: &'ast ExprForLoop) {
        self.visit_pat(&e.pat);
        self.visit_expr(&e.expr);
        self.in_loop(e.label.as_ref(), |names| names.visit_block(&e.body));
    }

    fn visit_expr_while(&mut self, e: &'ast ExprWhile) {
        self.in_loop(e.label.as_ref(), |names| {
            names.visit_expr(&e.cond);
            names.visit_block(&e.body);
        });
    }

    fn visit_expr_loop(&mut self, e: &'ast ExprLoop) {
        self.in_loop(e.label.as_ref(), |names| names.visit_block(&e.body));
    }

    fn visit_expr_block(&mut self, e: &'ast syn::ExprBlock) {
        self.labels.extend(e.label.as_ref().map(|l| l.name.clone()));
        visit::visit_expr_block(self, e);
        if e.label.is_some() {
            self.labels.pop();
        }
    }

    fn visit_expr_closure(&mut self, e: &'ast ExprClosure) {
        self.in_closure(|names| visit::visit_expr_closure(names, e));
    }

    fn visit_expr_async(&mut self, e: &'ast ExprAsync) {
        self.in_closure(|names| visit::visit_expr_async(names, e));
    }

    // Functions and the like in the body know none of its names.
    fn visit_item(&mut self, _: &'ast Item) {}
}
