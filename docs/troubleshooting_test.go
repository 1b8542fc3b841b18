// Package docs compares the pages with the code that they describe.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// said has the strings that users read, each with its place in the code.
type said map[string]string

// source returns the code that writes messages for users, by file.
func source(t *testing.T, dirs ...string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			files[path] = file
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// constants returns the values of all string constants whose names match.
func constants(files map[string]*ast.File, name *regexp.Regexp) said {
	out := said{}
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if i >= len(spec.Values) || !name.MatchString(id.Name) {
					continue
				}
				if value, ok := text(spec.Values[i]); ok {
					out[value] = path + " " + id.Name
				}
			}
			return true
		})
	}
	return out
}

// text returns the value of a string expression in the code. The only constant that it can resolve
// is GroupName.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.SelectorExpr:
		return "reprieve.dev", e.Sel.Name == "GroupName"
	case *ast.BinaryExpr:
		left, ok1 := text(e.X)
		right, ok2 := text(e.Y)
		return left + right, ok1 && ok2
	default:
		return "", false
	}
}

// eventReasons returns the reasons of events that are literals at the call.
func eventReasons(files map[string]*ast.File) said {
	const reason = 3
	out := said{}
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) <= reason {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Eventf" {
				return true
			}
			if value, ok := text(call.Args[reason]); ok {
				out[value] = path + " Eventf"
			}
			return true
		})
	}
	return out
}

// row is a row of a table: the words in its first cell that are marked as code, and all cells.
type row struct {
	heads []string
	cells []string
}

var code = regexp.MustCompile("`([^`]+)`")

// tables returns the rows of all tables of a page, by the heading of the first column.
func tables(page string) map[string][]row {
	out := map[string][]row{}
	heading := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			heading = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case heading == "":
			heading = cells[0]
		case strings.HasPrefix(cells[0], "---"):
		default:
			out[heading] = append(out[heading], row{heads: marked(cells[0]), cells: cells})
		}
	}
	return out
}

// marked returns the words of a text that are marked as code.
func marked(s string) []string {
	var out []string
	for _, m := range code.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestTroubleshooting checks that the page has exactly the conditions, events and rules that users
// can meet.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	page, rows := string(raw), tables(string(raw))
	all := source(t, "api/v1alpha1", "internal")
	reasons := constants(all, regexp.MustCompile(`^[Rr]eason[A-Z]`))
	events := eventReasons(all)
	for value, where := range constants(all, regexp.MustCompile(`^[Rr]eason(MalformedToleration|IneffectiveToleration|NotFilledIn|InvalidTemplate|TemplateNotFound|PriorityClassNotFound|Pending|OwnerUnknown|NotGroupable|PodGroupNotMade|PriorityAbovePods|ObjectNotFollowed|QueueNotFound|QueueNotLeaf|QueueUnusable|QueueNotAllowed|PriorityAboveQueue|QueueRequired|DriversWithoutWorkers)$`)) {
		events[value] = where
	}
	for what, c := range map[string]struct {
		said said
		// column is the heading of the first column of the tables. If it is "", the words may be in
		// any cell.
		column string
	}{
		"reasons of conditions": {reasons, ""},
		"types of conditions":   {constants(all, regexp.MustCompile(`^[Cc]ondition[A-Z]`)), "type"},
		"events":                {events, "event"},
		"rules":                 {constants(source(t, "internal/core"), regexp.MustCompile(`^Rule[A-Z]`)), "rule"},
		"lines of why":          {constants(source(t, "cmd/kubectl-reprieve/app"), regexp.MustCompile(`^says[A-Z]`)), "line of why"},
		"values of labels":      {constants(source(t, "internal/metrics"), regexp.MustCompile(`^(Preemption|Completion|Success|Failure|Abandoned|Pod|Gang|Fits|Preempts|Infeasible|Broken|Written|Dropped|Unwritable|OwnerUnknown|NotGroupable|PodGroupNotMade|PriorityAbovePods)$`)), ""},
	} {
		if len(c.said) < 5 {
			t.Errorf("%s: only %v are found in the code", what, c.said)
		}
		listed := map[string]bool{}
		for _, r := range rows[c.column] {
			for _, head := range r.heads {
				listed[head] = true
			}
		}
		for value, where := range c.said {
			if c.column == "" && !strings.Contains(page, "`"+value+"`") || c.column != "" && !listed[value] {
				t.Errorf("%s: %q (%s) is not in the page", what, value, where)
			}
		}
		for value := range listed {
			if c.said[value] == "" {
				t.Errorf("%s: the page has %q, the code does not", what, value)
			}
		}
	}
	for _, r := range rows["reason"] {
		for _, head := range r.heads {
			if reasons[head] == "" {
				t.Errorf("the page has the reason %q, the code does not", head)
			}
		}
	}
}

// TestMyJob checks that the page for users has exactly the reasons why pods with derived groups
// wait.
func TestMyJob(t *testing.T) {
	t.Parallel()
	pages := map[string]map[string]bool{}
	for _, page := range []string{"my-job.md", "groups.md", "troubleshooting.md"} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = map[string]bool{}
		for _, r := range tables(string(raw))["reason"] {
			for _, head := range r.heads {
				pages[page][head] = true
			}
		}
	}
	pages["groups.md"]["BehindItsObject"] = true
	if len(pages["groups.md"]) < 5 {
		t.Errorf("groups.md has the reasons %v only", pages["groups.md"])
	}
	for reason := range pages["groups.md"] {
		if !pages["my-job.md"][reason] {
			t.Errorf("my-job.md lacks %s", reason)
		}
	}
	for reason := range pages["my-job.md"] {
		if !pages["troubleshooting.md"][reason] && !pages["groups.md"][reason] {
			t.Errorf("my-job.md has %s, and the others do not", reason)
		}
	}
}

// TestTroubleshootingMetrics checks that the page names no metric that does not exist. `make
// generate` writes its table.
func TestTroubleshootingMetrics(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, d := range metrics.New().Descriptions() {
		made["reprieve_"+d.Name] = true
	}
	for _, word := range regexp.MustCompile(`reprieve_[a-z_]+`).FindAllString(string(raw), -1) {
		if !made[word] {
			t.Errorf("the page speaks of %s, which there is not", word)
		}
	}
}

// TestLinks checks that the files and headings that the pages link to exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"design", "results"} {
		below, err := filepath.Glob(filepath.Join(folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, below...)
	}
	for _, page := range []string{"README.md", "deploy/README.md", "charts/reprieve/README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join("..", filepath.FromSlash(page)))
	}
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(raw), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", page, m[1])
			}
		}
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(raw), -1) {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		out[regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(name, "")] = true
	}
	return out
}
