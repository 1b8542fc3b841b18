// Package architecture checks that the imports between the packages of this repository follow the
// list of packages in docs/architecture.md. It also checks the order of the components in
// internal/scheduler.
package architecture
