// Package changelog reads and writes CHANGELOG.md and its fragments. A fragment is a file with one
// unreleased change. Branches add separate files, so their changes do not conflict. A release moves
// all fragments to the changelog.
package changelog
