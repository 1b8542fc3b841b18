// Package changelog keeps CHANGELOG.md: what is new stands in fragments, one file for each change,
// so that two changes made at the same time do not meet in one place; a release gathers them.
package changelog
