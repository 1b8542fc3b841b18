package docs

import (
	"os"
	"regexp"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestStability checks that the page has exactly the versions of the formats that the code writes
// or reads.
func TestStability(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("stability.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^([a-z]+\.)?reprieve\.dev/([a-z]+/)?v\d+((alpha|beta)\d+)?$`)
	inCode := map[string]string{v1alpha1.SchemeGroupVersion.String(): "api/v1alpha1"}
	for value, where := range constants(source(t, "api", "internal", "cmd"), regexp.MustCompile(`.`)) {
		if version.MatchString(value) {
			inCode[value] = where
		}
	}
	if len(inCode) < 6 {
		t.Fatalf("the code has only %v", inCode)
	}
	onPage := make(map[string]bool)
	for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(raw), -1) {
		if version.MatchString(quoted[1]) {
			onPage[quoted[1]] = true
			if inCode[quoted[1]] == "" {
				t.Errorf("docs/stability.md has %s, which the code does not know", quoted[1])
			}
		}
	}
	for value, where := range inCode {
		if !onPage[value] {
			t.Errorf("docs/stability.md lacks %s (%s)", value, where)
		}
	}
}
