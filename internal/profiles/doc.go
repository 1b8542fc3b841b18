// Package profiles holds the facts about the profiles of a scheduler that decisions depend on:
// their arguments, their plugins, and the limits that all profiles share.
package profiles
