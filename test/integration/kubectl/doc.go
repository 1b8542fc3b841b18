// Package kubectl tests the kubectl plugin on a playground. It runs the plugin as a user with
// permission to list only, and compares its output with the actions of the scheduler.
package kubectl
