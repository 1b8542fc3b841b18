// Package command runs the reprieve-scheduler binary as a user would. It checks the commands of the
// documents, and mistakes. Each mistake must produce one line with the remedy, and a non-zero exit
// code.
package command
