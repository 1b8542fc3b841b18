// Package changes delays the handling of PodGroups that change very often. It determines the time
// to handle each change. It knows only the keys of PodGroups, and calls nothing.
package changes
