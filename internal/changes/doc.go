// Package changes delays the handling of PodGroups that change very often. It determines when the
// scheduler handles each change. It knows only the keys of PodGroups, and does not handle the
// changes itself.
package changes
