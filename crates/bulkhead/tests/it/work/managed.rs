//! Java.

use super::Work;

const MAIN: &str = r#"
import java.nio.file.*;
import java.util.stream.IntStream;

public class Main {
    public static void main(String[] words) throws Exception {
        int sum = IntStream.range(0, 1000).parallel().sum();
        Process child = new ProcessBuilder("echo", "child").inheritIO().start();
        child.waitFor();
        Files.writeString(Path.of("file"), "text");
        System.out.println(words[0] + " " + sum);
    }
}
"#;

#[test]
fn java_is_compiled_and_run() {
    let work = Work::new();
    work.write("Main.java", MAIN);
    let said = work.inside(
        "javac Main.java
         java Main classes
         jar cfe main.jar Main Main.class
         java -jar main.jar archive",
    );
    assert_eq!(said, "child\nclasses 499500\nchild\narchive 499500\n");
    assert_eq!(
        work.outside("java -jar main.jar outside; cat file"),
        "child\noutside 499500\ntext"
    );
}
