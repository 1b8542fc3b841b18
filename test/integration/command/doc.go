// Package command runs the reprieve-scheduler binary as a user would: right, as the documents have it, and wrong, where
// every mistake is answered with one line that says what to do, and a non-zero exit.
package command
