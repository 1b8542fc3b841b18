// Package command runs the reprieve-scheduler binary as a user would get it wrong: every mistake is answered
// with one line that says what to do, and a non-zero exit.
package command
