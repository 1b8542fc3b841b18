// Package docpage writes the results of commands into pages of docs/. Two marks in the page enclose
// the text that a command replaces.
package docpage

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Write replaces the text between the marks begin and end of the page at path. If path is empty,
// Write prints the text instead.
func Write(path, begin, end, text string) error {
	if path == "" {
		_, err := fmt.Print(text)
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errors.New(path + " has no place for the results")
	}
	if err := os.WriteFile(path, []byte(before+begin+"\n\n"+text+"\n"+end+after), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
