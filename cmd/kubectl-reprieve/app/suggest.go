package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// meantKind returns text that suggests the known kind most similar to a word. It returns "" if no
// kind is similar.
func meantKind(word string) string {
	var words []string
	for _, kind := range workKinds() {
		words = append(words, kind.singular(), kind.resource)
		if kind.short != "" {
			words = append(words, kind.short)
		}
	}
	if near := whatif.Nearest(strings.ToLower(word), words); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// findRunning finds the subject in the objects. It returns an error if the subject does not exist,
// or if no pod of the subject runs.
func (s *subject) findRunning(asked *question) error {
	switch exists, err := s.find(asked); {
	case err != nil:
		return err
	case !exists:
		return s.missing(asked.objects, "")
	case len(s.placed()) == 0:
		return notFound(fmt.Errorf("%s has no running pod", s.name()))
	}
	return nil
}

// missing returns the error for a subject that does not exist. The error suggests a similar name,
// namespace or kind. The argument more is text that the message ends with.
func (s *subject) missing(objects *inventory.Inventory, more string) error {
	return notFound(fmt.Errorf("%s does not exist%s%s", s.name(), more, s.meant(objects)))
}

// meant returns text that suggests an existing object, kind or namespace that is similar to the
// subject's. Without a similar one, it returns "".
func (s *subject) meant(objects *inventory.Inventory) string {
	var here, anywhere []string
	for _, kind := range workKinds() {
		for _, o := range objects.Objects(kind.stored()) {
			switch same := kind.Kind == s.kind; {
			case o.Name == s.key.Name && o.Namespace == s.key.Namespace:
				return fmt.Sprintf("; did you mean %s/%s?", kind.singular(), o.Name)
			case o.Name == s.key.Name && same:
				anywhere = append(anywhere, o.Namespace)
			case o.Namespace == s.key.Namespace && same:
				here = append(here, o.Name)
			}
		}
	}
	if len(anywhere) > 0 {
		slices.Sort(anywhere)
		return fmt.Sprintf("; there is one in namespace %s", strings.Join(anywhere[:min(len(anywhere), 3)], ", "))
	}
	if near := whatif.Nearest(s.key.Name, here); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	var namespaces []string
	for _, o := range objects.Objects("namespaces") {
		namespaces = append(namespaces, o.Name)
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, s.key.Namespace) {
		if near := whatif.Nearest(s.key.Namespace, namespaces); near != "" {
			return fmt.Sprintf("; there is no namespace %s; did you mean %s?", s.key.Namespace, near)
		}
		return fmt.Sprintf("; there is no namespace %s", s.key.Namespace)
	}
	return ""
}
