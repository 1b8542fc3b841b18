// Package profiles holds facts about the profiles of a scheduler that decisions depend on. These
// are the arguments, the plugins, and the limits that all profiles share.
package profiles
