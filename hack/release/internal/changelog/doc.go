// Package changelog keeps CHANGELOG.md. Each change has a fragment, a file of its own, so that two
// concurrent changes do not conflict. A release gathers the fragments.
package changelog
